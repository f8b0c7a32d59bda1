//! How the calls about results are described.

use actix_web::http::StatusCode;
use serde_json::json;

use super::{UserResult, http::WinnersPage};
use crate::{
    activity::ACTIVITY_NOT_FOUND,
    http::{CSV_MEDIA_TYPE, KnownProblem, Operation, Tag},
};

/// The win records were removed.
pub const RESULT_EXPIRED: KnownProblem = KnownProblem::gone(
    "result_expired",
    "The results were removed at the end of their life",
);

const OF_RESULTS: [KnownProblem; 3] = [
    ACTIVITY_NOT_FOUND,
    RESULT_EXPIRED,
    KnownProblem::UNAVAILABLE,
];

pub(super) fn result() -> Operation {
    Operation::new(Tag::Results, "getMyResult", "Tells whether the caller won")
        .description("Ask again after `nextPollMs`, which spreads the callers.")
        .answer::<UserResult>(
            StatusCode::OK,
            "The result, or that there is none yet.",
            json!({
                "result": "won",
                "win": {
                    "winRecordId": "7265187412320780300",
                    "prize": {
                        "prizeId": "1", "name": "Headphones", "kind": "physical", "rank": 1,
                    },
                    "rank": 2,
                },
                "cutoffScore": 0.981_273_645,
                "round": 1,
                "nextPollMs": 60123,
            }),
        )
        .problems(&OF_RESULTS)
}

pub(super) fn winners() -> Operation {
    Operation::new(Tag::Results, "listWinners", "Lists who won, best first")
        .description(
            "User ids are masked, and `fulfilment` is left out, unless the caller runs the room. Round 0 \
             says that there is no result yet.",
        )
        .answer::<WinnersPage>(
            StatusCode::OK,
            "A page of winners.",
            json!({
                "round": 1,
                "items": [{
                    "seat": 1,
                    "userId": "12****90",
                    "winRecordId": "7265187412320780300",
                    "prize": {
                        "prizeId": "1", "name": "Headphones", "kind": "physical", "rank": 1,
                    },
                    "score": 0.999_812_734,
                    "round": 1,
                }],
                "nextCursor": "31",
            }),
        )
        .problems(&OF_RESULTS)
}

pub(super) fn winners_csv() -> Operation {
    Operation::new(
        Tag::Results,
        "exportWinners",
        "Exports who won, revoked wins too, as CSV",
    )
    .description(
        "Streamed: an answer that ends without its last chunk is not the whole file. \
         `docs/integration.md` tells of the format. Audited.",
    )
    .answer_text(
        StatusCode::OK,
        CSV_MEDIA_TYPE,
        "A row for each win, by seat and round.",
        "\u{feff}\"seat\",\"round\",\"status\",\"userId\",\"winRecordId\",\"prizeRank\",\"prizeId\",\
         \"prizeName\",\"prizeKind\",\"score\",\"drawnAt\",\"revokedRound\",\"revokedAt\",\"fulfilment\",\
         \"fulfilmentReference\"\r\n\
         \"1\",\"1\",\"won\",\"'1001\",\"'7265187412320780300\",\"1\",\"'1\",\"Headphones\",\"physical\",\
         \"0.999812734\",\"2026-01-31T20:00:00.123Z\",\"\",\"\",\"pending\",\"\"\r\n",
    )
    .problems(&[
        KnownProblem::conflict("not_drawn", "The activity has not been drawn"),
        ACTIVITY_NOT_FOUND,
        RESULT_EXPIRED,
        KnownProblem::UNAVAILABLE,
    ])
}
