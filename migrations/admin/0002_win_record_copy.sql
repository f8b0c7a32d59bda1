-- A copy of every win record, revoked ones too. Rows go when the records they copy are past their life.
CREATE TABLE IF NOT EXISTS win_record_copy (
    id             BIGINT UNSIGNED NOT NULL,
    activity_id    BIGINT UNSIGNED NOT NULL,
    user_id        BIGINT UNSIGNED NOT NULL,
    seat           INT UNSIGNED    NOT NULL,
    round          INT UNSIGNED    NOT NULL,
    prize_id       BIGINT UNSIGNED NOT NULL,
    prize_rank     INT UNSIGNED    NOT NULL,
    score          DOUBLE          NOT NULL,
    status         VARCHAR(8)      NOT NULL,
    fulfilment     VARCHAR(12)     NOT NULL,
    fulfilment_ref VARCHAR(200)    NULL,
    drawn_at       DATETIME(3)     NOT NULL,
    revoked_round  INT UNSIGNED    NULL,
    revoked_at     DATETIME(3)     NULL,
    PRIMARY KEY (id),
    KEY win_record_copy_seat (activity_id, seat, round),
    KEY win_record_copy_user (user_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
