-- Answers to calls that carried an Idempotency-Key, written in the transaction of the change itself:
-- whoever asks again, whatever happened to the first answer, gets the same one.
CREATE TABLE IF NOT EXISTS idempotency (
    principal       BIGINT UNSIGNED   NOT NULL,
    idempotency_key VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    request_hash    BINARY(32)        NOT NULL,
    status          SMALLINT UNSIGNED NOT NULL,
    location        VARCHAR(255)      NULL,
    body            MEDIUMTEXT        NOT NULL,
    created_at      DATETIME(3)       NOT NULL,
    PRIMARY KEY (principal, idempotency_key),
    KEY idempotency_created (created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
