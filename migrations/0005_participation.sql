-- The durable record that a user joined an activity. Clustered by (activity, user), so the exact
-- draw reads one activity in order and the first verdict of a user is kept by the primary key.
-- revision grows by one in each transaction that changes anything of this user in this activity.
CREATE TABLE IF NOT EXISTS participation (
    activity_id BIGINT UNSIGNED NOT NULL,
    user_id     BIGINT UNSIGNED NOT NULL,
    device_id   VARCHAR(64)     NULL,
    status      VARCHAR(8)      NOT NULL,
    reason      VARCHAR(20)     NULL,
    is_trimmed  BOOLEAN         NOT NULL DEFAULT FALSE,
    accepted_at DATETIME(3)     NOT NULL,
    request_id  VARCHAR(64)     NOT NULL,
    revision    INT UNSIGNED    NOT NULL,
    created_at  DATETIME(3)     NOT NULL,
    PRIMARY KEY (activity_id, user_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
