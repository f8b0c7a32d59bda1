//! How far what was counted may be from what chance gives.
//!
//! Every limit leaves one case in a thousand of pure chance outside, on each side that has one.

/// The 0.1 % and 99.9 % points of the chi-square distribution, by degrees of freedom: NIST/SEMATECH
/// e-Handbook of Statistical Methods, 1.3.6.7.4; that of 399 by the regularized incomplete gamma
/// function, which gives the others too.
const CHI_SQUARE: [(usize, f64, f64); 4] = [
    (2, 0.002, 13.816),
    (9, 1.152, 27.877),
    (15, 3.483, 37.697),
    (399, 317.369, 492.022),
];

/// The 99.9 % point of Kolmogorov's distribution: sqrt(-ln(0.001 / 2) / 2).
const KOLMOGOROV: f64 = 1.949;

/// How often something fell into one of several cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    pub(super) entrants: u64,
    pub(super) wins: u64,
}

/// In what way a result is not what chance gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Misfit {
    /// Some cells win too often. The statistic, and its limit.
    Uneven(f64, f64),
    /// Chance does not keep so close to the average.
    TooEven(f64, f64),
}

/// Pearson's chi-square test of the wins of `draws` draws with so many `seats` each.
///
/// Nobody wins twice in one draw, which makes counts a little more even than independent ones
/// would be: by the factor by which the variance of a sample without replacement is smaller.
pub(super) fn chi_square(cells: &[Cell], draws: u64, seats: u64) -> Result<(), Misfit> {
    let entrants: u64 = cells.iter().map(|cell| cell.entrants).sum();
    let wins_each = float(draws * seats) / float(entrants);
    let deviations = cells.iter().map(|cell| {
        let expected = float(cell.entrants) * wins_each;
        (float(cell.wins) - expected).powi(2) / expected
    });
    let without_replacement = float(entrants - seats) / float(entrants - 1);
    let statistic = deviations.sum::<f64>() / without_replacement;

    let degrees = cells.len() - 1;
    let known = CHI_SQUARE.iter().find(|(known, ..)| *known == degrees);
    let (_, low, high) = *known.unwrap_or_else(|| panic!("no limits for {degrees} degrees"));
    if statistic > high {
        Err(Misfit::Uneven(statistic, high))
    } else if statistic < low {
        Err(Misfit::TooEven(statistic, low))
    } else {
        Ok(())
    }
}

/// The Kolmogorov–Smirnov test of numbers against the uniform distribution over [0, 1), with
/// Stephens's correction for how many there are.
pub(super) fn kolmogorov_smirnov(mut numbers: Vec<f64>) -> Result<(), Misfit> {
    numbers.sort_by(f64::total_cmp);
    let count = float(numbers.len() as u64);
    let distance = (0..).zip(&numbers).fold(0_f64, |widest, (below, number)| {
        let above = (float(below + 1) / count - number).abs();
        let under = (number - float(below) / count).abs();
        widest.max(above).max(under)
    });
    let statistic = distance * (count.sqrt() + 0.12 + 0.11 / count.sqrt());
    if statistic > KOLMOGOROV {
        Err(Misfit::Uneven(statistic, KOLMOGOROV))
    } else {
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^53")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
