//! The pods of the Kustomize overlays, and the folders that their volumes are.

use std::path::Path;
use std::process::Command;

use backstop_tests::emulator::services;
use serde_json::Value;

use crate::checkers::{example, passes, yaml};
use crate::container::Container;

/// What an overlay is made into by `kubectl kustomize`.
pub(crate) struct Overlay {
    /// As text.
    pub(crate) text: String,
    /// The objects.
    pub(crate) objects: Vec<Value>,
}

impl Overlay {
    /// That of `examples/operate/kubernetes`.
    pub(crate) fn example(name: &str) -> Self {
        Self::of(&example("kubernetes").join(name))
    }

    /// One in any folder.
    pub(crate) fn of(folder: &Path) -> Self {
        let mut kubectl = Command::new(services().join("kubectl/kubectl"));
        let text = passes(kubectl.arg("kustomize").arg(folder), "");
        let objects = yaml(&text);
        Self { text, objects }
    }

    /// All objects of a kind.
    pub(crate) fn all<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects.iter().filter(move |it| it["kind"] == kind)
    }

    /// The only object of a kind.
    pub(crate) fn only<'a>(&'a self, kind: &'a str) -> &'a Value {
        let all: Vec<_> = self.all(kind).collect();
        assert_eq!(all.len(), 1, "{kind}");
        all[0]
    }

    /// The template of the pods with a host.
    pub(crate) fn pod(&self) -> &Value {
        &self.only("Deployment")["spec"]["template"]
    }

    /// The container of the host, whatever kind of container it is.
    pub(crate) fn backstop(&self) -> &Value {
        let spec = &self.pod()["spec"];
        let of = |kind: &str| spec[kind].as_array().into_iter().flatten();
        let mut all = of("initContainers").chain(of("containers"));
        all.find(|it| it["name"] == "backstop").unwrap()
    }

    /// The text of the configuration that the pod mounts.
    pub(crate) fn configuration(&self) -> &str {
        let name = self.volume("configuration")["configMap"]["name"].clone();
        let mut maps = self.all("ConfigMap");
        let map = maps.find(|it| it["metadata"]["name"] == name).unwrap();
        map["data"]["backstop.toml"].as_str().unwrap()
    }

    /// A volume of the pod.
    pub(crate) fn volume(&self, name: &str) -> &Value {
        let volumes = self.pod()["spec"]["volumes"].as_array().unwrap();
        volumes.iter().find(|it| it["name"] == name).unwrap()
    }

    /// The container as it runs, with each mount in a folder of its own below `root`, filled as the kubelet fills it: files of a config map and of a secret are links through `..data`, and an empty folder is open to everybody.
    pub(crate) fn container(&self, root: &Path, configuration: &str) -> Container {
        let backstop = self.backstop();
        let texts = |value: &Value| -> Vec<String> {
            let list = value.as_array().into_iter().flatten();
            list.map(|it| it.as_str().unwrap().to_owned()).collect()
        };
        let variables = backstop["env"].as_array().unwrap().iter();
        let mut container = Container::new(
            texts(&backstop["args"]),
            variables
                .map(|it| (it["name"].clone(), it["value"].clone()))
                .collect(),
        );
        for mount in backstop["volumeMounts"].as_array().unwrap() {
            let name = mount["name"].as_str().unwrap();
            let files: &[(&str, &str)] = match name {
                "configuration" => &[("backstop.toml", configuration)],
                "admin" => &[
                    ("token", "an-operator-of-the-tests"),
                    ("view-token", "a-scraper-of-the-tests"),
                ],
                _ => &[],
            };
            container.mount(root, mount["mountPath"].as_str().unwrap(), files);
        }
        container
    }
}
