-- What a committed transaction still owes: messages to publish, projections to bring up to date.
-- A relay claims a row by moving not_before on; a finished row is deleted.
CREATE TABLE IF NOT EXISTS outbox (
    id         BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    dedupe_key VARCHAR(191)    NOT NULL,
    kind       VARCHAR(16)     NOT NULL,
    body       MEDIUMTEXT      NOT NULL,
    attempts   INT UNSIGNED    NOT NULL DEFAULT 0,
    not_before DATETIME(3)     NOT NULL,
    created_at DATETIME(3)     NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY outbox_dedupe (dedupe_key),
    KEY outbox_due (not_before)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
