//! How far the mean of a few repetitions can be trusted.

/// The mean of some values and the half width of its 95 % confidence interval (Student's t); None of less than two.
pub(super) fn mean_and_margin(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 2 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1) as f64;
    let t = T_975.get(n - 2).copied().unwrap_or(1.96);
    Some((mean, t * (variance / n as f64).sqrt()))
}

/// Student's t for 97.5 % with 1, 2, 3, … degrees of freedom; beyond these the normal distribution will do.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_that_of_students_t() {
        // Mean 10, standard deviation 1, four values: 3.182 · 1 / 2.
        let values = [9.0, 9.5, 10.5, 11.0];
        let sd = (values.iter().map(|v: &f64| (v - 10.0).powi(2)).sum::<f64>() / 3.0).sqrt();
        let (mean, margin) = mean_and_margin(&values).unwrap();
        assert_eq!(mean, 10.0);
        assert!((margin - 3.182 * sd / 2.0).abs() < 1e-12);
        assert_eq!(mean_and_margin(&[3.0, 3.0]), Some((3.0, 0.0)));
        assert_eq!(mean_and_margin(&[3.0]), None);
    }
}
