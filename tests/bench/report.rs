//! Prints measured ratios beside their goals.

/// What a figure should be.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtMost(f64),
    AtLeast(f64),
}

/// Collects figures; prints each as it comes.
#[derive(Debug, Default)]
pub(crate) struct Report {
    missed: Vec<String>,
    count: usize,
}

impl Report {
    /// A figure without a goal.
    pub(crate) fn say(&mut self, line: &str) {
        println!("  {line}");
    }

    pub(crate) fn ratio(&mut self, name: &str, value: f64, goal: Goal) {
        let (held, words) = match goal {
            Goal::AtMost(limit) => (value <= limit, format!("≤ {limit}")),
            Goal::AtLeast(limit) => (value >= limit, format!("≥ {limit}")),
        };
        let mark = if held { "ok" } else { "MISSED" };
        println!("{name:<58} {value:>10.4}   goal {words:<8} {mark}");
        self.count += 1;
        if !held {
            self.missed.push(name.to_owned());
        }
    }

    /// The closing line; false when a goal was missed.
    pub(crate) fn finish(&self) -> bool {
        println!("{} of {} goals held", self.count - self.missed.len(), self.count);
        for name in &self.missed {
            println!("missed: {name}");
        }
        self.missed.is_empty()
    }
}
