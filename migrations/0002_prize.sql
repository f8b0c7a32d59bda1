-- The prize library, and the private prizes of single activities (is_private).
-- stock_total NULL means unlimited; reserved and issued never exceed it together.
CREATE TABLE IF NOT EXISTS prize (
    id          BIGINT UNSIGNED NOT NULL,
    name        VARCHAR(100)    NOT NULL,
    kind        VARCHAR(16)     NOT NULL,
    image       VARCHAR(500)    NULL,
    value_cents BIGINT UNSIGNED NULL,
    is_private  BOOLEAN         NOT NULL,
    stock_total BIGINT UNSIGNED NULL,
    reserved    BIGINT UNSIGNED NOT NULL DEFAULT 0,
    issued      BIGINT UNSIGNED NOT NULL DEFAULT 0,
    created_at  DATETIME(3)     NOT NULL,
    updated_at  DATETIME(3)     NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
