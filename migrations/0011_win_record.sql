-- The durable record that a user won a prize. The two unique keys are what "drawn once" rests on:
-- a user wins an activity once, a seat is given once a round.
CREATE TABLE IF NOT EXISTS win_record (
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
    revoked_at     DATETIME(3)     NULL,
    revoke_reason  VARCHAR(255)    NULL,
    PRIMARY KEY (id),
    UNIQUE KEY win_record_user (activity_id, user_id),
    UNIQUE KEY win_record_seat (activity_id, seat, round),
    KEY win_record_period (user_id, drawn_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
