//! Comma-separated values as spreadsheets take them: RFC 4180 in UTF-8, with no cell that could be
//! taken for a formula, and none that would lose digits.
//!
//! One rule undoes it: a `'` at the beginning of a cell, or right behind a `;`, a tab or a line break in
//! it, marks text and is not part of it.

use std::fmt::Display;

use actix_web::web::Bytes;
use csv::{QuoteStyle, Terminator, WriterBuilder};

use crate::kernel::{Timestamp, format_timestamp};

/// Tells spreadsheets that the file is UTF-8, without which they show Chinese as something else.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const MARK: char = '\'';

/// One cell, safe to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell(String);

impl Cell {
    /// A cell of nothing.
    pub const EMPTY: Self = Self(String::new());

    /// What somebody wrote; marked as text where it could be read as a formula, a number or a date.
    pub fn text(text: &str) -> Self {
        let mut cell = String::with_capacity(text.len() + 1);
        if needs_mark(text) {
            cell.push(MARK);
        }
        for (index, piece) in text.split_inclusive(ends_cell_elsewhere).enumerate() {
            if index > 0 && needs_mark_within(piece) {
                cell.push(MARK);
            }
            cell.push_str(piece);
        }
        Self(cell)
    }

    /// A 64-bit id, always marked as text: spreadsheets keep 15 digits of a number.
    pub fn id(id: impl Display) -> Self {
        Self(format!("'{id}"))
    }

    /// A number or a word of ours.
    pub fn plain(value: impl Display) -> Self {
        Self(value.to_string())
    }

    /// The same, or nothing.
    pub fn plain_or_empty(value: Option<impl Display>) -> Self {
        value.map_or(Self::EMPTY, Self::plain)
    }

    /// RFC 3339 in UTC with milliseconds.
    pub fn time(at: Timestamp) -> Self {
        Self(format_timestamp(at))
    }
}

/// Whether a spreadsheet would take it for something else than text, or the mark of text for ours.
fn needs_mark(text: &str) -> bool {
    let starts_oddly = text.starts_with(|first: char| first.is_control() || first == MARK);
    // Some programs look behind blanks, and behind characters that nobody sees.
    let shown = text.trim_start_matches(|c: char| c.is_whitespace() || is_invisible(c));
    starts_oddly || shown.starts_with(is_start_of_formula) || is_like_number(shown)
}

/// What ends a cell, quotes or not, for a program that is set to another separator than the comma: to
/// it our quotes are closed in the first cell of a line, and everything behind them is as it stands.
const fn ends_cell_elsewhere(c: char) -> bool {
    matches!(c, ';' | '\t' | '\r' | '\n')
}

/// Whether such a program would take what stands behind such an end for a formula, or the mark of
/// text for ours. It takes quotes there for its own.
fn needs_mark_within(piece: &str) -> bool {
    let shown =
        piece.trim_start_matches(|c: char| c == '"' || c.is_whitespace() || is_invisible(c));
    piece.starts_with(MARK) || shown.starts_with(is_start_of_formula)
}

const fn is_start_of_formula(c: char) -> bool {
    // The second four are the full-width forms, which some programs take for the first.
    matches!(c, '=' | '+' | '-' | '@' | '＝' | '＋' | '－' | '＠')
}

fn is_invisible(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// `0012`, `1E5`, `3/4` and `2026-01-31` are read as numbers and dates, and come back as others.
fn is_like_number(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_digit() || " .,:/-+%eE".contains(c);
    text.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && text.chars().all(is_part)
}

/// Writes a file page by page: the byte order mark and the names of the columns, then rows.
#[derive(Debug)]
pub struct CsvPages {
    /// Until they are written.
    columns: Option<&'static [&'static str]>,
}

impl CsvPages {
    pub fn new(columns: &'static [&'static str]) -> Self {
        Self {
            columns: Some(columns),
        }
    }

    /// The next bytes of the file; `None` when nothing is left to write.
    pub fn page(
        &mut self,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Result<Option<Bytes>, csv::Error> {
        let mut page = match self.columns.take() {
            Some(columns) => [BYTE_ORDER_MARK, &lines(std::iter::once(columns))?].concat(),
            None => Vec::new(),
        };
        let texts = rows
            .into_iter()
            .map(|row| row.into_iter().map(|cell| cell.0));
        page.extend(lines(texts)?);
        Ok((!page.is_empty()).then(|| page.into()))
    }
}

/// Every cell stands in quotes, so that a program that splits at commas takes each as it is.
fn lines<R, C>(rows: impl Iterator<Item = R>) -> Result<Vec<u8>, csv::Error>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let mut writer = WriterBuilder::new()
        .quote_style(QuoteStyle::Always)
        .terminator(Terminator::CRLF)
        .from_writer(Vec::new());
    for row in rows {
        writer.write_record(row)?;
    }
    writer
        .into_inner()
        .map_err(|error| error.into_error().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the rule that is told to everybody makes of a cell.
    fn undone(cell: &str) -> String {
        let pieces = cell.split_inclusive([';', '\t', '\r', '\n']);
        let pieces = pieces.map(|piece| piece.strip_prefix('\'').unwrap_or(piece));
        pieces.collect()
    }

    fn marked(text: &str) -> bool {
        let cell = Cell::text(text).0;
        assert_eq!(undone(&cell), text, "{cell:?}");
        cell.starts_with('\'')
    }

    #[test]
    fn no_cell_is_a_formula_for_a_program_that_splits_elsewhere() {
        const TEXTS: [&str; 12] = [
            "Mug;=1+1;x",
            "Mug\t=1+1\tx",
            "Mug\n=1+1",
            "Mug\r\n@x",
            "Mug; \u{200b}-1",
            "Mug;\"=1\"",
            "Mug;;+1",
            "Mug;'x",
            "Mug;''=1",
            "'a;'b",
            "say \"hi\";\"\"\"-1;",
            "a;b c\td\ne",
        ];
        let mut csv = CsvPages::new(&["a", "b", "c"]);
        let rows = TEXTS.map(|text| vec![Cell::plain(1), Cell::text(text), Cell::text(text)]);
        let page = csv.page(rows).unwrap().unwrap();

        for delimiter in [b',', b';', b'\t'] {
            let mut reader = csv::ReaderBuilder::new()
                .delimiter(delimiter)
                .flexible(true)
                .from_reader(&*page);
            for field in reader.records().flat_map(|row| {
                let row = row.unwrap();
                row.iter().map(str::to_owned).collect::<Vec<_>>()
            }) {
                let shown = field.trim_start_matches(|c: char| c == '"' || c.is_whitespace());
                let shown = shown.trim_start_matches('\u{200b}');
                assert!(!shown.starts_with(['=', '+', '-', '@']), "{field:?}");
            }
        }
        for text in TEXTS {
            marked(text);
        }
        assert_eq!(Cell::text("a;b\tc").0, "a;b\tc", "nothing to be marked");
    }

    #[test]
    fn what_could_be_a_formula_a_number_or_a_date_is_marked_and_can_be_undone() {
        for text in [
            "=cmd|' /C calc'!A0",
            "+1",
            "-1",
            "@x",
            "\tx",
            "\rx",
            "\nx",
            "＝1",
            "＋1",
            "－1",
            "＠x",
            " =1",
            "\u{3000}@x",
            "\u{a0}-1",
            "\u{feff}=1",
            "\u{200b}+1",
            "'",
            "'=1",
            "''x",
            "0012",
            "1E5",
            ".5",
            "3/4",
            "2026-01-31",
            "12:30",
            "1 000",
            "15%",
            "12345678901234567890",
        ] {
            assert!(marked(text), "{text:?}");
        }
        for text in [
            "",
            "Coupon",
            "100 coins",
            "a=b",
            "礼物",
            "🎁 +1",
            "x-1",
            "(1)",
            "order 7",
            "e5",
        ] {
            assert!(!marked(text), "{text:?}");
        }
    }

    #[test]
    fn ids_keep_their_digits_and_numbers_stay_numbers() {
        assert_eq!(Cell::id(u64::MAX).0, "'18446744073709551615");
        assert_eq!(Cell::plain(0.5).0, "0.5");
        assert_eq!(Cell::plain_or_empty(None::<u32>), Cell::EMPTY);
    }

    #[test]
    fn lines_are_quoted_and_end_as_the_standard_says() {
        let mut csv = CsvPages::new(&["a", "b"]);
        let row = vec![Cell::text("say \"hi\", \r\n you"), Cell::EMPTY];

        assert_eq!(csv.page([]).unwrap().unwrap(), "\u{feff}\"a\",\"b\"\r\n");
        let written = csv.page([row]).unwrap().unwrap();
        assert_eq!(written, "\"say \"\"hi\"\", \r\n you\",\"\"\r\n");
        assert_eq!(csv.page([]).unwrap(), None);
    }
}
