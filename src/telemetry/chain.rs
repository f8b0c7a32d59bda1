//! An error and what caused it, on one line.

use std::{error::Error, fmt};

/// Displays an error with its sources: `cannot open x: no such file`.
#[derive(Clone, Copy, Debug)]
pub struct Chain<'a>(pub &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.0, f)?;
        let mut shown = self.0.to_string();
        let mut next = self.0.source();
        while let Some(source) = next {
            let text = source.to_string();
            // Some libraries repeat their source in their own message.
            if !shown.ends_with(&text) {
                write!(f, ": {text}")?;
            }
            shown = text;
            next = source.source();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("inner")]
    struct Inner;

    #[test]
    fn every_source_is_shown_once() {
        assert_eq!(Chain(&Outer(Inner)).to_string(), "outer: inner");
    }
}
