-- When a user last left and last entered the room, for every user with an event, participant or
-- not. Only the two maxima are kept: then neither order nor repetition of events matters.
CREATE TABLE IF NOT EXISTS presence (
    activity_id   BIGINT UNSIGNED NOT NULL,
    user_id       BIGINT UNSIGNED NOT NULL,
    last_leave_at DATETIME(3)     NULL,
    last_enter_at DATETIME(3)     NULL,
    PRIMARY KEY (activity_id, user_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
