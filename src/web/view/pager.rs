//! Pages of a list. Where one is stands in the address, with everything else that was chosen.

use crate::model::percent_encoded;

/// Rows on a page.
pub const PAGE: u32 = 50;

/// Where a list stands: addresses of the pages before and after this one.
pub struct Pager {
    pub page: u32,
    pub newer: Option<String>,
    pub older: Option<String>,
}

/// How many rows are before a page; pages count from 1.
pub fn offset(page: Option<u32>) -> u32 {
    (number(page) - 1) * PAGE
}

fn number(page: Option<u32>) -> u32 {
    page.unwrap_or(1).clamp(1, 1_000_000)
}

impl Pager {
    /// Where new rows appear; the other pages are for reading, and stand still.
    pub fn is_first(&self) -> bool {
        self.page == 1
    }

    /// Cuts a list that was loaded with one row more than a page holds. `chosen` are the other values of the address;
    /// empty ones are left out.
    pub fn cut<T>(rows: &mut Vec<T>, page: Option<u32>, chosen: &[(&str, &str)]) -> Self {
        let page = number(page);
        let more = rows.len() > PAGE as usize;
        rows.truncate(PAGE as usize);
        let chosen: String = chosen
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={}&", percent_encoded(value)))
            .collect();
        let address = |page: u32| format!("?{chosen}page={page}");
        Self { page, newer: (page > 1).then(|| address(page - 1)), older: more.then(|| address(page + 1)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_stay_in_the_address() {
        let mut rows: Vec<u32> = (0..PAGE + 1).collect();
        let pager = Pager::cut(&mut rows, Some(2), &[("q", "a b&c"), ("codebase", "")]);
        assert_eq!(rows.len(), 50);
        assert_eq!(pager.newer.as_deref(), Some("?q=a%20b%26c&page=1"));
        assert_eq!(pager.older.as_deref(), Some("?q=a%20b%26c&page=3"));
    }

    #[test]
    fn a_short_list_has_no_other_pages() {
        let pager = Pager::cut(&mut vec![1, 2], None, &[]);
        assert_eq!((pager.page, pager.newer, pager.older), (1, None, None));
        assert_eq!((offset(None), offset(Some(0)), offset(Some(3))), (0, 0, 100));
    }
}
