mod common;

#[test]
fn print() {
    for width in [80, 120, 200, 260] {
        println!("{}", common::table().to_terminal(width));
    }
}
