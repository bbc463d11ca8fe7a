//! What all views have around them, and the form to sign in.

use maud::{DOCTYPE, Markup, html};

use super::fleet::Missing;
use super::session::Session;
use super::text::shown;
use super::view::View;

/// The views, with their paths and names.
pub(super) const VIEWS: [(&str, &str); 7] = [
    ("/", "Overview"),
    ("/waiting", "Waiting"),
    ("/dead-letters", "Dead letters"),
    ("/redrives", "Redrives"),
    ("/message", "Message"),
    ("/policies", "Policies"),
    ("/audit", "Audit"),
];

/// A view with everything around it, which is renewed. `missing` are the hosts that have not answered.
pub(super) fn page(view: &View<'_>, path: &str, missing: &[Missing], body: Markup) -> Markup {
    around(view, path, parts(view, missing, true), body)
}

/// A view that stays as it is.
pub(super) fn still(view: &View<'_>, path: &str, missing: &[Missing], body: Markup) -> Markup {
    around(view, path, parts(view, missing, false), body)
}

fn around(view: &View<'_>, path: &str, parts: Markup, body: Markup) -> Markup {
    let title = VIEWS.iter().find(|(of, _)| *of == path);
    let title = title.map_or("Not found", |(_, name)| *name);
    document(
        title,
        html! {
            header {
                a .skip href="#main" { "Skip to the content" }
                strong { "Backstop" }
                nav aria-label="Views" {
                    @for (to, name) in VIEWS {
                        a href=(to) aria-current=[(to == path).then_some("page")] { (name) }
                    }
                }
                (who(view))
            }
            main #main tabindex="-1" {
                h1 { (title) }
                (parts)
                (body)
            }
            footer {
                @if view.fleet.is_named() {
                    p { "All hosts of " code { "fleet" } ", asked at most every two seconds." }
                } @else {
                    p { "One host. Name the others with " code { "fleet" } " in its configuration." }
                }
                p #state role="status" {}
            }
        },
    )
}

/// The hosts that have not answered: a part is never shown as the whole.
fn parts(view: &View<'_>, missing: &[Missing], is_live: bool) -> Markup {
    html! {
        div #missing data-live[is_live] {
            @if !missing.is_empty() {
                div .notice.bad role="alert" {
                    p { strong { "This is not all: " } (missing.len()) " of the hosts did not answer." }
                    ul { @for Missing { host, why } in missing { li { code { (shown(host)) } ": " (shown(why)) } } }
                }
            }
            p .at { "As of " time datetime=(view.now.rfc3339()) { (view.now.rfc3339()) } }
        }
    }
}

fn who(view: &View<'_>) -> Markup {
    html! {
        div .who {
            @match &view.session {
                Some(session) => {
                    span { (shown(&session.name)) " (" (session.role.name()) @if session.is_by_proxy { ", by proxy" } ")" }
                    @if !session.is_by_proxy { button type="button" data-send="/page/sign-out" { "Sign out" } }
                }
                None => a href="/page/sign-in" { "Sign in" }
            }
        }
    }
}

/// The form to sign in.
pub(super) fn sign_in(needs_token: bool, session: Option<&Session>) -> Markup {
    document(
        "Sign in",
        html! {
            main #main .sign-in {
                h1 { "Backstop" }
                form method="post" data-send="/page/sign-in" {
                    label { "Your name"
                        input name="name" required maxlength="100" autocomplete="username"
                            value=[session.map(|it| shown(&it.name))];
                    }
                    p .hint { "It is logged with everything that you do." }
                    @if needs_token {
                        label { "Token"
                            input name="token" type="password" required autocomplete="current-password";
                        }
                        p .hint { "That of " code { "admin-token-file" } ", or to look only, of " code { "admin-bodies-token-file" } " or " code { "admin-view-token-file" } "." }
                    }
                    button { "Sign in" }
                    output role="alert" {}
                }
                noscript { p { "Signing in needs JavaScript. Views can be read without, with the header " code { "Authorization: Bearer TOKEN" } "." } }
            }
        },
    )
}

/// A table that scrolls in itself where it is too wide, also by keyboard.
pub(super) fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div .scrolling role="region" aria-label=(label) tabindex="0" { (table) } }
}

/// What is at a path that has no view.
pub(super) fn nothing(view: &View<'_>) -> Markup {
    still(view, "", &[], html! { p { "There is no such view." } })
}

fn document(title: &str, body: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " – Backstop" }
                link rel="icon" href="/page/icon.svg" type="image/svg+xml";
                link rel="stylesheet" href="/page/style.css";
                script src="/page/script.js" defer {}
            }
            body { (body) }
        }
    }
}
