mod common;

#[test]
fn print() {
    for width in [80, 120, 200, 260] {
        println!("{}", common::table().to_terminal(width));
    }
    std::fs::write("/tmp/report-page.html", common::page().to_html()).unwrap();
    std::fs::write("/tmp/report-plot.svg", common::delay_plot().to_svg(640, 420)).unwrap();
}
