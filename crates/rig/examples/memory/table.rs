//! Tables for people: columns as wide as what stands in them.

/// A table with a title for each column.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Makes a table of these columns.
    pub fn new(titles: &[&str]) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(titles);
        table
    }

    /// Adds a row, with a cell for each column.
    pub fn row(&mut self, cells: &[&str]) {
        self.rows.push(cells.iter().map(|cell| cell.to_string()).collect());
    }

    /// Prints it, and an empty line after it.
    pub fn print(&self) {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.rows[0].len()).map(width).collect();
        for (at, row) in self.rows.iter().enumerate() {
            println!("  {}", line(row, &widths));
            if at == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                println!("  {}", line(&rules, &widths));
            }
        }
        println!();
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
    cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
}
