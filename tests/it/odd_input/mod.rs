//! Text and bytes that nobody expects: kept exactly or refused by name, and never able to pass for
//! something of ours in a log.

mod ids;
mod kept;
mod logs;
mod raw;
mod refused;

/// Text that must come back as it went in.
const ODD_TEXTS: [&str; 6] = [
    // Joined emoji, a flag, a tag sequence, a variation selector.
    "👩\u{200d}👩\u{200d}👧\u{200d}👦 🏳\u{fe0f}\u{200d}🌈 🇨🇳 ❤\u{fe0f}",
    // From right to left, mixed with digits and Latin, with a mark of direction.
    "حقيبة الحظ 7 שקית Lucky \u{200f}!",
    // Letters that are joined, or not, by an invisible neighbour; letters of two code points.
    "می\u{200c}خواهم क\u{94d}\u{200d}ष e\u{301} é ﬁ İı ß",
    // What means something to SQL, JSON, Redis patterns, formats, markup, shells and spreadsheets.
    "=cmd|' /C calc'!A0 '; DROP TABLE activity; -- \"\\u0041 {*}[?] %s%n ${x} $(id) <b>&amp;",
    // Spaces of every width, kept at both ends too.
    " \u{a0}\u{2003}\u{3000}福袋\u{3000} ",
    // The last code points there are, and one for private use.
    "\u{10ffff}\u{fffd}\u{e000}\u{1f381}",
];
