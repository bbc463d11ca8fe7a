//! Pictures of a terminal for the documents: text with ANSI colours as an SVG that follows the reader's light or dark mode.

use std::fmt::Write as _;

/// The advance of a character, the distance of two lines and the margin, in pixels.
const CHARACTER: f64 = 7.8;
const LINE: usize = 18;
const MARGIN: usize = 16;

const STYLE: &str = "\
text{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:13px;fill:#1f2328}
rect{fill:#f6f8fa;stroke:#d0d7de}
.c1{font-weight:bold}.c2{fill:#656d76}.c31{fill:#cf222e}.c32{fill:#116329}.c33{fill:#7d4e00}.c36{fill:#0a6c74}
@media(prefers-color-scheme:dark){
text{fill:#e6edf3}
rect{fill:#0d1117;stroke:#30363d}
.c2{fill:#8b949e}.c31{fill:#ff7b72}.c32{fill:#7ee787}.c33{fill:#e3b341}.c36{fill:#76e3ea}
}
";

/// The lines as a picture.
pub fn picture(lines: &[&str], description: &str) -> String {
    let longest = lines.iter().map(|line| plain(line).chars().count()).max();
    let width = across(longest.unwrap_or(0)) + f64::from(u32::try_from(2 * MARGIN).unwrap());
    let height = lines.len() * LINE + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height}\" role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n<rect x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{}\" rx=\"8\"/>\n",
        escaped(description),
        width - 1.0,
        height - 1,
    );
    for (row, line) in lines.iter().enumerate() {
        if line.is_empty() {
            continue;
        }
        write!(svg, "<text y=\"{}\">", MARGIN + row * LINE + 13).unwrap();
        let mut column = 0;
        for (classes, text) in spans(line) {
            let length = text.chars().count();
            let x = across(column) + f64::from(u32::try_from(MARGIN).unwrap());
            write!(
                svg,
                "<tspan x=\"{x:.1}\" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"{classes}>{}</tspan>",
                across(length),
                escaped(text)
            )
            .unwrap();
            column += length;
        }
        svg.push_str("</text>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// A line without its colours.
pub fn plain(line: &str) -> String {
    spans(line).into_iter().map(|(_, text)| text).collect()
}

/// The lines of a picture, without colours and empty lines.
pub fn lines_of(picture: &str) -> Vec<String> {
    let document = roxmltree::Document::parse(picture).unwrap();
    let lines = document
        .descendants()
        .filter(|node| node.has_tag_name("text"));
    let text = |line: roxmltree::Node<'_, '_>| -> String {
        let parts = line.descendants().filter(roxmltree::Node::is_text);
        parts.filter_map(|part| part.text()).collect()
    };
    lines
        .map(|line| text(line).replace('\u{a0}', " "))
        .collect()
}

fn across(characters: usize) -> f64 {
    CHARACTER * f64::from(u32::try_from(characters).unwrap())
}

/// The parts of a line, each with the attribute that colours it.
fn spans(line: &str) -> Vec<(String, &str)> {
    let mut codes: Vec<&str> = Vec::new();
    let mut spans = Vec::new();
    for (index, part) in line.split("\u{1b}[").enumerate() {
        let text = if index == 0 {
            part
        } else {
            let (code, text) = part.split_once('m').unwrap();
            if code == "0" {
                codes.clear();
            } else {
                codes.push(code);
            }
            text
        };
        if !text.is_empty() {
            let classes: Vec<_> = codes.iter().map(|code| format!("c{code}")).collect();
            let attribute = if classes.is_empty() {
                String::new()
            } else {
                format!(" class=\"{}\"", classes.join(" "))
            };
            spans.push((attribute, text));
        }
    }
    spans
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('"', "&quot;")
        .replace("  ", "\u{a0}\u{a0}")
}
