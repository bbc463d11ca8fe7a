//! The table `admin-proxy`: an authenticating proxy in front of the admin interface.

use super::*;

/// What each group may do.
pub(crate) type GroupRoles = BTreeMap<String, AdminRole>;

table! {
    /// An authenticating proxy in front of the admin interface.
    AdminProxy at "admin-proxy", "a table with `header`, `from` and `role`, such as { header = \"x-forwarded-user\", from = [\"10.0.0.5\"], role = \"view\" }";

    /// The header in which the proxy names who has signed in, such as `x-forwarded-user`.
    header: String {
        row: "the header in which the proxy names who has signed in, such as `x-forwarded-user`",
        shown: "required",
    }

    /// The addresses of the proxy, such as `10.0.0.5` or `10.0.1.0/24`. From all others, the header is ignored.
    from: Texts {
        row: "the addresses of the proxy, such as `10.0.0.5` or `10.0.1.0/24`: from all others, the header is ignored",
        shown: "required",
        method: "admin_proxy",
    }

    /// What everybody whom the proxy names may do. With groups, what those may do who are in none of them.
    role: Option<AdminRole> => admin_proxy_role(AdminRole) {
        row: "what everybody whom the proxy names [may do](../operate/page.md#who-may-do-what): `view`, `bodies` or `act`; with `groups`, those who are in none of them",
        shown: "with `groups`, nothing",
    }

    /// The header in which the proxy names the groups of who has signed in, with commas in between, and bars in `x-authentik-groups`.
    groups_header: Option<String> {
        row: "the header in which the proxy names the groups of who has signed in, with commas in between, and bars in `x-authentik-groups`, such as `x-forwarded-groups`",
        shown: "none",
    }

    /// What each group may do. Who is in several may do the most of it.
    groups: Option<GroupRoles> {
        row: "what each group may do, such as `{ sre = \"act\", support = \"bodies\" }`: who is in several may do the most of it",
        shown: "none",
        method: "admin_proxy_groups",
    }
}
