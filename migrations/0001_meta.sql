-- Facts that hold for the whole installation, such as the number of stream partitions:
-- a process configured otherwise refuses to start.
CREATE TABLE IF NOT EXISTS meta (
    name  VARCHAR(64)  NOT NULL,
    value VARCHAR(255) NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
