//! The rules of the graph, against a slow model that implements them literally.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn entity(name: &str, observations: &[&str]) -> Entity {
    Entity {
        name: name.into(),
        entity_type: "thing".into(),
        observations: observations.iter().map(ToString::to_string).collect(),
        extra: Map::new(),
    }
}

fn relation(from: &str, to: &str) -> Relation {
    let relation_type = "knows".into();
    Relation { from: from.into(), to: to.into(), relation_type, extra: Map::new() }
}

fn observations(name: &str, contents: &[&str]) -> Observations {
    let contents = contents.iter().map(ToString::to_string).collect();
    Observations { entity_name: name.into(), contents }
}

/// A graph of two entities that are related.
fn pair() -> Graph {
    Graph {
        entities: vec![entity("Ada", &["writes", "counts"]), entity("Bob", &[])],
        relations: vec![relation("Ada", "Bob"), relation("Bob", "Ada")],
    }
}

#[track_caller]
fn check(
    edit: GraphEdit,
    edited: &GraphEditResult,
    effect: GraphEffect,
    then: impl FnOnce(&mut Graph),
) {
    let (mut graph, mut expect) = (pair(), pair());
    then(&mut expect);
    assert_eq!(graph.apply_edit(edit), Ok((edited.clone(), effect)));
    assert_eq!(graph, expect);
}

#[test]
fn only_what_is_not_there_is_created() {
    let new = vec![entity("Cy", &["x"]), entity("Cy", &[])];
    let asked = [vec![entity("Ada", &["other"])], new.clone()].concat();
    check(
        GraphEdit::CreateEntities(asked),
        &GraphEditResult::Entities(new.clone()),
        GraphEffect::Changed,
        |graph| {
            graph.entities.extend(new);
        },
    );
    let known = GraphEdit::CreateEntities(vec![entity("Ada", &[])]);
    check(known, &GraphEditResult::Entities(vec![]), GraphEffect::Unchanged, |_| {});
    let new = vec![relation("Ada", "unknown"), relation("Ada", "unknown")];
    let asked = [vec![relation("Bob", "Ada")], new.clone()].concat();
    check(
        GraphEdit::CreateRelations(asked),
        &GraphEditResult::Relations(new.clone()),
        GraphEffect::Changed,
        |graph| {
            graph.relations.extend(new);
        },
    );
}

#[test]
fn only_what_is_not_known_is_added() {
    let added = |name: &str, texts: &[&str]| AddedObservations {
        entity_name: name.into(),
        added_observations: texts.iter().map(ToString::to_string).collect(),
    };
    let asked = vec![
        observations("Ada", &["writes", "paints", "paints"]),
        observations("Ada", &["paints"]),
    ];
    let edited =
        GraphEditResult::Observations(vec![added("Ada", &["paints", "paints"]), added("Ada", &[])]);
    check(GraphEdit::AddObservations(asked), &edited, GraphEffect::Changed, |graph| {
        graph.entities[0].observations.extend(["paints".into(), "paints".into()]);
    });
}

#[test]
fn a_change_is_made_whole_or_not_at_all() {
    let mut graph = pair();
    let asked = vec![observations("Ada", &["paints"]), observations("Cy", &["x"])];
    let error = graph.apply_edit(GraphEdit::AddObservations(asked)).expect_err("Cy is not there");
    assert_eq!(error.to_string(), "Entity with name Cy not found");
    assert_eq!(graph, pair());
}

#[test]
fn what_is_deleted_takes_its_relations_along() {
    let names = vec!["Bob".to_owned(), "unknown".to_owned()];
    check(
        GraphEdit::DeleteEntities(names),
        &GraphEditResult::Deleted,
        GraphEffect::Changed,
        |graph| {
            graph.entities.pop();
            graph.relations.clear();
        },
    );
    let asked = vec![observations("Ada", &["counts", "paints"]), observations("unknown", &["x"])];
    check(
        GraphEdit::DeleteObservations(asked),
        &GraphEditResult::Deleted,
        GraphEffect::Changed,
        |graph| {
            graph.entities[0].observations.pop();
        },
    );
    let asked = vec![relation("Ada", "Bob"), relation("Ada", "unknown")];
    check(
        GraphEdit::DeleteRelations(asked),
        &GraphEditResult::Deleted,
        GraphEffect::Changed,
        |graph| {
            graph.relations.remove(0);
        },
    );
    let nothing = GraphEdit::DeleteEntities(vec!["unknown".to_owned()]);
    check(nothing, &GraphEditResult::Deleted, GraphEffect::Unchanged, |_| {});
}

#[test]
fn a_search_looks_everywhere_and_ignores_case() {
    let mut graph = pair();
    graph.entities[1].observations.push("STRASSE, ΟΔΟΣ, 300 \u{212a}".into());
    for (texts, expect) in [
        (&["ADA"][..], &["Ada"][..]),
        (&["thing"], &["Ada", "Bob"]),
        (&["COUNT"], &["Ada"]),
        (&["straSSe"], &["Bob"]),
        (&["οδος"], &["Bob"]),
        (&["300 K"], &["Bob"]),
        (&[""], &["Ada", "Bob"]),
        (&[], &["Ada", "Bob"]),
        (&["thing", "count"], &["Ada"]),
        (&["bob", "count"], &[]),
        // No text continues in the next one.
        (&["adathing"], &[]),
        (&["thingwrites"], &[]),
        (&["writescounts"], &[]),
        (&["countsbob"], &[]),
    ] {
        let found = graph.search_entities(texts);
        let names: Vec<&str> = found.entities.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, expect, "{texts:?}");
        assert_eq!(found.relations.is_empty(), expect.is_empty(), "{texts:?}");
    }
    let opened = graph.select_by_names(&["Bob", "unknown"]);
    assert_eq!(opened.entities, [&graph.entities[1]]);
    assert_eq!(opened.relations.len(), 2);
}

#[test]
fn answers_name_nothing_but_what_the_protocol_knows() {
    let mut graph = pair();
    graph.entities[0].extra.insert("since".into(), json!(1843));
    graph.entities.pop();
    graph.relations.pop();
    assert_eq!(
        json!(graph.select_all()),
        json!({
            "entities": [{"name": "Ada", "entityType": "thing", "observations": ["writes", "counts"]}],
            "relations": [{"from": "Ada", "to": "Bob", "relationType": "knows"}],
        })
    );
}

/// A few names and texts, so that they collide.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "BC", "ÉΣ"]).prop_map(str::to_owned)
}

fn words() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(word(), 0..4)
}

fn edit() -> impl Strategy<Value = GraphEdit> {
    let entity = (word(), words()).prop_map(|(name, observations)| Entity {
        name,
        observations,
        ..Entity::default()
    });
    let relation = (word(), word(), word()).prop_map(|(from, to, relation_type)| Relation {
        from,
        to,
        relation_type,
        ..Relation::default()
    });
    let about = (word(), words())
        .prop_map(|(entity_name, contents)| Observations { entity_name, contents });
    let about = prop::collection::vec(about, 0..3).boxed();
    let relations = prop::collection::vec(relation, 0..3).boxed();
    prop_oneof![
        prop::collection::vec(entity, 0..3).prop_map(GraphEdit::CreateEntities),
        relations.clone().prop_map(GraphEdit::CreateRelations),
        about.clone().prop_map(GraphEdit::AddObservations),
        words().prop_map(GraphEdit::DeleteEntities),
        about.prop_map(GraphEdit::DeleteObservations),
        relations.prop_map(GraphEdit::DeleteRelations),
    ]
}

/// What the edits mean, one item at a time.
fn model(graph: &Graph, edit: &GraphEdit) -> Graph {
    let mut after = graph.clone();
    match edit {
        GraphEdit::CreateEntities(asked) => {
            let is_new = |it: &&Entity| graph.entities.iter().all(|there| there.name != it.name);
            after.entities.extend(asked.iter().filter(is_new).cloned());
        }
        GraphEdit::CreateRelations(asked) => {
            after
                .relations
                .extend(asked.iter().filter(|it| !graph.relations.contains(it)).cloned());
        }
        GraphEdit::AddObservations(asked) => {
            for Observations { entity_name, contents } in asked {
                let Some(entity) = after.entities.iter_mut().find(|it| it.name == *entity_name)
                else {
                    return graph.clone();
                };
                let known = entity.observations.clone();
                entity
                    .observations
                    .extend(contents.iter().filter(|it| !known.contains(it)).cloned());
            }
        }
        GraphEdit::DeleteEntities(names) => {
            after.entities.retain(|it| !names.contains(&it.name));
            after.relations.retain(|it| !names.contains(&it.from) && !names.contains(&it.to));
        }
        GraphEdit::DeleteObservations(asked) => {
            for Observations { entity_name, contents } in asked {
                if let Some(entity) = after.entities.iter_mut().find(|it| it.name == *entity_name) {
                    entity.observations.retain(|it| !contents.contains(it));
                }
            }
        }
        GraphEdit::DeleteRelations(asked) => after.relations.retain(|it| !asked.contains(it)),
    }
    after
}

/// What a search finds, one text at a time.
fn found<'a>(graph: &'a Graph, texts: &[&str]) -> GraphSelection<'a> {
    let has = |entity: &Entity, part: &str| {
        let texts = [&entity.name, &entity.entity_type];
        let mut texts = texts.into_iter().chain(&entity.observations);
        texts.any(|text| text.to_lowercase().contains(&part.to_lowercase()))
    };
    let entities = graph.entities.iter().filter(|it| texts.iter().all(|text| has(it, text)));
    let entities: Vec<&Entity> = entities.collect();
    let touches =
        |it: &&Relation| entities.iter().any(|entity| [&it.from, &it.to].contains(&&entity.name));
    let relations = graph.relations.iter().filter(touches).collect();
    GraphSelection { entities, relations }
}

proptest! {
    #[test]
    fn edits_do_what_the_words_say(edits in prop::collection::vec(edit(), 0..20)) {
        let mut graph = Graph::default();
        for edit in edits {
            let expect = model(&graph, &edit);
            let before = graph.clone();
            let effect = graph.apply_edit(edit).map_or(GraphEffect::Unchanged, |(_, effect)| effect);
            prop_assert_eq!(&graph, &expect);
            prop_assert_eq!(effect == GraphEffect::Unchanged, graph == before);
            for texts in [&["A"][..], &["b", "C"], &["σ"], &["É"], &["bc"], &[""]] {
                prop_assert_eq!(graph.search_entities(texts), found(&graph, texts), "{:?}", texts);
            }
        }
    }
}
