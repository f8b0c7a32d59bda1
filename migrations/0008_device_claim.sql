-- Which user holds the one entry of a device, where an activity allows one entry a device.
CREATE TABLE IF NOT EXISTS device_claim (
    activity_id BIGINT UNSIGNED NOT NULL,
    device_id   VARCHAR(64)     NOT NULL,
    user_id     BIGINT UNSIGNED NOT NULL,
    PRIMARY KEY (activity_id, device_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
