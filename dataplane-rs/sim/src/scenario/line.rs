//! A line of a scenario, taken word by word.

/// A line with what of it was taken.
pub struct Line<'a> {
    file: &'a str,
    /// From 1 on.
    pub number: usize,
    words: Vec<&'a str>,
    next: usize,
}

/// A fault is a text with file and line.
pub type Result<T> = std::result::Result<T, String>;

impl<'a> Line<'a> {
    /// The line of that number of a file; `#` begins a note.
    pub fn new(file: &'a str, number: usize, text: &'a str) -> Line<'a> {
        let text = text.split('#').next().unwrap_or_default();
        Line {
            file,
            number,
            words: text.split_whitespace().collect(),
            next: 0,
        }
    }

    /// The next word, none at the end.
    pub fn next(&mut self) -> Option<&'a str> {
        let word = self.peek();
        self.next += 1;
        word
    }

    /// All behind the statement's own word.
    pub fn rest(&self) -> String {
        self.words[1..].join(" ")
    }

    /// A fault of this line.
    pub fn fault<T>(&self, what: impl std::fmt::Display) -> Result<T> {
        Err(format!("{}:{}: {what}", self.file, self.number))
    }

    /// The next word; it stays.
    pub fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    /// The next word, which must be there.
    pub fn word(&mut self, what: &str) -> Result<&'a str> {
        let Some(word) = self.peek() else {
            return self.fault(format!("expected {what}, found the end of the line"));
        };
        self.next += 1;
        Ok(word)
    }

    /// Takes the word if it is the next one.
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }

    /// That word must be the next one.
    pub fn expect(&mut self, word: &str) -> Result<()> {
        if self.take(word) {
            return Ok(());
        }
        let found = self.peek().unwrap_or("the end of the line");
        self.fault(format!("expected {word:?}, found {found:?}"))
    }

    /// Nothing may be left.
    pub fn end(&self) -> Result<()> {
        match self.peek() {
            Some(word) => self.fault(format!("{word:?} is not expected here")),
            None => Ok(()),
        }
    }

    /// A word with one of the units at its end.
    pub fn unit(&mut self, what: &str, units: &[(&str, f64)]) -> Result<f64> {
        let word = self.word(what)?;
        for (unit, factor) in units {
            let number = word.strip_suffix(unit).and_then(|n| n.parse::<f64>().ok());
            if let Some(number) = number.filter(|n| n.is_finite() && *n >= 0.0) {
                return Ok(number * factor);
            }
        }
        self.fault(format!("{word:?} is no {what}"))
    }

    /// A number, or a share in percent.
    pub fn number(&mut self, what: &str) -> Result<f64> {
        self.unit(what, &[("%", 0.01), ("", 1.0)])
    }

    /// A whole number.
    pub fn count(&mut self, what: &str) -> Result<u64> {
        let number = self.number(what)?;
        if number.fract() != 0.0 || number > 1e15 {
            return self.fault(format!("{number} is no {what}"));
        }
        Ok(number as u64)
    }

    /// A time in nanoseconds.
    pub fn time(&mut self, what: &str) -> Result<u64> {
        Ok(self.unit(what, &TIMES)? as u64)
    }

    /// `V`, or `V to W`.
    pub fn ramp(&mut self, what: &str, units: &[(&str, f64)]) -> Result<(f64, f64)> {
        let from = self.unit(what, units)?;
        let to = if self.take("to") {
            self.unit(what, units)?
        } else {
            from
        };
        Ok((from, to))
    }
}

/// Longer suffixes first: each ends in the shorter ones.
const TIMES: [(&str, f64); 6] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];
