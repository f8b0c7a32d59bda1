-- Who may not take part: everywhere (scope 0) or in one activity (scope = its id).
CREATE TABLE IF NOT EXISTS deny_list (
    scope      BIGINT UNSIGNED NOT NULL,
    user_id    BIGINT UNSIGNED NOT NULL,
    reason     VARCHAR(255)    NULL,
    created_by BIGINT UNSIGNED NOT NULL,
    created_at DATETIME(3)     NOT NULL,
    PRIMARY KEY (scope, user_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
