//! Records of CSV written field by field, where there are too many for tables.

use super::Decimal;
use crate::FixedPoint;
use crate::text::{is_formula, is_plain, one_line};

/// One record of CSV (RFC 4180), appended to a text field by field.
///
/// ```
/// let mut line = Vec::new();
/// let mut record = report::CsvRecord::new(&mut line, report::Decimal::Point);
/// record.text("a,b").count(1000).fixed(Some(-1_500), 3).absent();
/// record.end();
/// assert_eq!(line, b"\"a,b\",1000,-1.500,\r\n");
/// ```
#[derive(Debug)]
pub struct CsvRecord<'o> {
    out: &'o mut Vec<u8>,
    decimal: Decimal,
    is_first: bool,
}

impl<'o> CsvRecord<'o> {
    /// Begins a record behind what is in `out`.
    pub fn new(out: &'o mut Vec<u8>, decimal: Decimal) -> CsvRecord<'o> {
        CsvRecord {
            out,
            decimal,
            is_first: true,
        }
    }

    /// A field of text, made safe for programs that show it: without control characters, and in quotation
    /// marks where it needs them (rules 6 and 7 of section 2). What a spreadsheet would take for a harmful formula
    /// gets an apostrophe in front, which to spreadsheets says that text follows.
    pub fn text(&mut self, text: &str) -> &mut Self {
        self.separate();
        let separator = self.decimal.separator();
        let may_be_formula = matches!(
            text.as_bytes().first(),
            Some(b'=' | b'@' | b'+' | b'-' | b' ')
        );
        if !may_be_formula && is_plain(text, [b'"', separator as u8]) {
            self.out.extend_from_slice(text.as_bytes());
        } else {
            self.push_quoted(text, separator);
        }
        self
    }

    /// A text that is known to need neither: none of its characters is a control character, a quotation mark, a comma or a
    /// semicolon.
    #[inline]
    pub fn plain(&mut self, text: &'static str) -> &mut Self {
        self.separate();
        self.out.extend_from_slice(text.as_bytes());
        self
    }

    /// A whole number.
    #[inline]
    pub fn count(&mut self, count: u64) -> &mut Self {
        self.separate();
        self.out
            .extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
        self
    }

    /// An exact number, of which the last so many digits are decimals; `None` is an absent field.
    pub fn fixed(&mut self, number: Option<i64>, decimals: usize) -> &mut Self {
        let number = number.map(|number| FixedPoint::new(number, decimals, b'.'));
        self.written(number.as_ref())
    }

    /// An exact number that is written already; `None` is an absent field.
    #[inline]
    pub fn written(&mut self, number: Option<&FixedPoint>) -> &mut Self {
        self.separate();
        if let Some(number) = number {
            match self.decimal {
                Decimal::Point => number.push_to(self.out),
                Decimal::Comma => number.with_point(b',').push_to(self.out),
            }
        }
        self
    }

    /// A field with nothing in it.
    pub fn absent(&mut self) -> &mut Self {
        self.separate();
        self
    }

    /// Ends the record with CRLF (rule 1).
    pub fn end(self) {
        self.out.extend_from_slice(b"\r\n");
    }

    #[inline]
    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_first) {
            self.out.push(self.decimal.separator() as u8);
        }
    }

    fn push_quoted(&mut self, text: &str, separator: char) {
        let mut text = one_line(text);
        if is_formula(&text) {
            text.insert(0, '\'');
        }
        if text.contains([separator, '"']) {
            self.out.push(b'"');
            self.out
                .extend_from_slice(text.replace('"', "\"\"").as_bytes());
            self.out.push(b'"');
        } else {
            self.out.extend_from_slice(text.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(decimal: Decimal, fill: impl FnOnce(&mut CsvRecord<'_>)) -> String {
        let mut line = Vec::new();
        let mut record = CsvRecord::new(&mut line, decimal);
        fill(&mut record);
        record.end();
        String::from_utf8(line).expect("text")
    }

    #[test]
    fn numbers_are_exact() {
        let line = record(Decimal::Comma, |record| {
            record
                .fixed(Some(0), 3)
                .fixed(Some(5), 3)
                .fixed(Some(1234), 3)
                .fixed(Some(-7), 0)
                .fixed(Some(i64::MIN), 9)
                .fixed(None, 3);
        });
        assert_eq!(line, "0,000;0,005;1,234;-7;-9223372036,854775808;\r\n");
    }

    #[test]
    fn text_from_elsewhere_stays_in_its_field() {
        let line = record(Decimal::Point, |record| {
            record
                .text("say \"hi\"")
                .text("a\r\nb\u{1b}")
                .text("ä;ö")
                .text("ä,ö")
                .plain("not ended");
        });
        assert_eq!(
            line,
            "\"say \"\"hi\"\"\",a  b\u{fffd},ä;ö,\"ä,ö\",not ended\r\n"
        );
    }

    #[test]
    fn text_from_elsewhere_is_no_formula() {
        let line = record(Decimal::Point, |record| {
            record
                .text("=1+1")
                .text("\t=HYPERLINK(\"a\",b)")
                .text("@A1")
                .text("-cmd|' /C calc'!A0")
                .text("＝1")
                .text("+4930123@example.org")
                .text("-a.b")
                .text(" a")
                .fixed(Some(-1), 0);
        });
        assert_eq!(
            line,
            "'=1+1,\"' =HYPERLINK(\"\"a\"\",b)\",'@A1,'-cmd|' /C calc'!A0,'＝1,+4930123@example.org,-a.b, a,-1\r\n"
        );
    }
}
