//! Tables for people: columns as wide as what stands in them.

/// A table with a title for each column.
pub struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// Makes a table of these columns.
    pub fn new(titles: [&str; N]) -> Self {
        Self { rows: vec![titles.map(String::from)] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: [&str; N]) {
        self.rows.push(cells.map(String::from));
    }

    /// Prints it, and an empty line after it.
    pub fn print(&self) {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: [usize; N] = std::array::from_fn(width);
        for (at, row) in self.rows.iter().enumerate() {
            println!("  {}", line(row.iter().zip(widths)));
            if at == 0 {
                let rules = widths.map(|width| "-".repeat(width));
                println!("  {}", line(rules.iter().zip(widths)));
            }
        }
        println!();
    }
}

fn line<'a>(cells: impl Iterator<Item = (&'a String, usize)>) -> String {
    let cells: Vec<String> = cells.map(|(cell, width)| format!("{cell:<width$}")).collect();
    cells.join("  ").trim_end().to_string()
}
