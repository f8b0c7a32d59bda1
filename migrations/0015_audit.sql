-- Who did what to which activity, and in which request. Rows are only ever added.
CREATE TABLE IF NOT EXISTS audit (
    id          BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
    activity_id BIGINT UNSIGNED NULL,
    actor       VARCHAR(32)     NOT NULL,
    action      VARCHAR(32)     NOT NULL,
    detail      TEXT            NULL,
    request_id  VARCHAR(64)     NOT NULL,
    created_at  DATETIME(3)     NOT NULL,
    PRIMARY KEY (id),
    KEY audit_activity (activity_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
