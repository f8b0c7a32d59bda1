//! What can be wrong with a proof or an entry. Every text begins with the name of a value.

/// What does not hold.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Fault {
    #[error(transparent)]
    Proof(#[from] ProofFault),

    #[error("entry file: {0}")]
    Entry(#[from] EntryFault),
}

/// What does not hold about a proof.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProofFault {
    #[error("{path}: {message}")]
    Malformed { path: String, message: String },

    #[error("format: this is `{found}`, and only `{expected}` is understood here")]
    Format {
        found: String,
        expected: &'static str,
    },

    #[error("rulesHash: this is not the hash of the rules")]
    RulesHash,

    #[error("rules: this is not the text that rulesHash and commitment are about")]
    Rules,

    #[error("rules: {0}")]
    RulesUnusable(String),

    #[error("activityId: the rules are those of another activity, {0}")]
    ActivityId(u64),

    #[error("scoreRuleVersion: {found} is not that of the rules, {expected}")]
    ScoreRuleVersion { found: u32, expected: u32 },

    #[error("scoreRuleVersion: only rule 1 is understood here, not {0}")]
    UnknownScoreRule(u32),

    #[error("commitment: seed and rules are not what it commits to")]
    Commitment,

    #[error("seed: neither the commitment nor the winners' scores follow from it")]
    Seed,

    #[error("entriesRoot: it is not the hash of activityId, entriesCount and entriesTree")]
    EntriesRoot,

    #[error("entriesTree: neither entriesRoot nor the winners' paths lead to it")]
    EntriesTree,

    #[error("entriesCount: neither entriesRoot nor the winners' paths are of so many entries")]
    EntriesCount,

    #[error("entriesTree: this is not the hash of no entries")]
    EmptyTree,

    #[error("winners[{index}].userId: neither the score nor the entry are this user's")]
    WinnerUser { index: usize },

    #[error("winners[{index}].score: {found} is not the user's score, {expected}")]
    WinnerScore {
        index: usize,
        found: f64,
        expected: f64,
    },

    #[error("winners[{index}].entry: no eligible entry of the user is at this place of the tree")]
    WinnerEntry { index: usize },

    #[error("winners[{index}].entry: the entries are not in the order of user ids")]
    EntryOrder { index: usize },

    #[error("round: there are {redraws} redraws, one fewer than rounds is right, not {round}")]
    Rounds { round: u32, redraws: usize },

    #[error("redraws[{index}].round: the rounds are not numbered from 2 on")]
    RedrawRound { index: usize },

    #[error("redraws[{index}].seats: these are not the seats that winners lost in that round")]
    RedrawSeats { index: usize },

    #[error("redraws[{index}].seats: a redraw takes at least one win back")]
    NobodyRevoked { index: usize },

    #[error("winners[{index}].seat: the rules have {seats} seats, not a seat {seat}")]
    UnknownSeat { index: usize, seat: u32, seats: u64 },

    #[error("winners[{index}].round: there was no round {round}")]
    UnknownRound { index: usize, round: u32 },

    #[error("winners[{index}].revokedInRound: there was no later round {round}")]
    UnknownRevocation { index: usize, round: u32 },

    #[error("winners[{index}].revokedInRound: the redraws say nothing of it")]
    UnlistedRevocation { index: usize },

    #[error("winners[{index}].seat: it has two winners in one round")]
    SeatTwice { index: usize },

    #[error("winners[{index}].userId: this user won before")]
    UserTwice { index: usize },

    #[error("winners[{index}].seat: the seats are not given in ascending order")]
    SeatSkipped { index: usize },

    #[error("winners[{index}].round: nobody was left by then, and yet somebody won")]
    WonAfterTheLast { index: usize },

    #[error("winners[{index}].seat: a better score got the seat behind a worse one")]
    ScoreOrder { index: usize },

    #[error("winners[{index}].prizeRank: this seat is for the prize of rank {expected}")]
    PrizeRank { index: usize, expected: u32 },

    #[error("winners[{index}].prizeId: this seat is for prize {expected}")]
    PrizeId { index: usize, expected: u64 },

    #[error("cutoffScore: it is not the lowest score that won in round 1")]
    CutoffScore,
}

/// What does not hold about an entry beside a proof that does.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EntryFault {
    #[error("{0}")]
    Unreadable(Box<ProofFault>),

    #[error("activityId: the proof is that of another activity")]
    ActivityId,

    #[error("entriesCount: the proof has another number of entries")]
    EntriesCount,

    #[error("entriesRoot: the proof has another root")]
    EntriesRoot,

    #[error("entry.status: status, reason and eligibility do not go together")]
    State,

    #[error("entry.userId: neither the score nor the entry are this user's")]
    User,

    #[error("score: {found} is not the user's score, {expected}")]
    Score { found: f64, expected: f64 },

    #[error("entry: it does not lead to the root")]
    Path,

    #[error("entry.index: the entries are not in the order of user ids")]
    Order,

    #[error("entry: the user's win is about another entry")]
    OtherEntry,

    #[error("rank: it is not the seat of the user's win")]
    Rank,

    #[error("rank: the user did not win")]
    RankWithoutWin,

    #[error("entry.eligibility: an eligible entry won nothing although a seat stayed empty")]
    EmptySeat,

    #[error("entry.eligibility: an eligible entry won nothing although a lower score did")]
    PassedOver,
}
