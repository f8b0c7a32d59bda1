-- What is being removed: a row lives from the moment something is past its life until its last row
-- is gone, so that a removal goes on where it stopped, whoever does the next step.
CREATE TABLE IF NOT EXISTS removal (
    activity_id BIGINT UNSIGNED NOT NULL,
    what        VARCHAR(16)     NOT NULL,
    PRIMARY KEY (activity_id, what)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
