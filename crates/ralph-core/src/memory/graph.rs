//! The knowledge graph that agents maintain: entities, observations about them, and relations.
//!
//! Its rules are those of the widely used memory server for agents, so that either can continue
//! with the file of the other: a name need not be unique, an entity that is created twice in one
//! call exists twice, and a relation may name entities that do not exist. Not here: the file, and
//! the protocol.

use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An entity, and what is known about it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    pub name: String,
    /// What kind of entity it is.
    pub entity_type: String,
    pub observations: Vec<String>,
    /// Other properties of its line in the file.
    #[serde(skip)]
    pub extra: Map<String, Value>,
}

/// How one entity relates to another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relation {
    pub from: String,
    pub to: String,
    pub relation_type: String,
    /// Other properties of its line in the file.
    #[serde(skip)]
    pub extra: Map<String, Value>,
}

/// All entities and relations.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Graph {
    /// Oldest first.
    pub entities: Vec<Entity>,
    /// Oldest first.
    pub relations: Vec<Relation>,
}

/// A part of the graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GraphSelection<'a> {
    pub entities: Vec<&'a Entity>,
    /// Every relation that begins or ends at one of them.
    pub relations: Vec<&'a Relation>,
}

/// Observations about one entity.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observations {
    pub entity_name: String,
    #[serde(alias = "observations")]
    pub contents: Vec<String>,
}

/// The result of adding observations to one entity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AddedObservations {
    pub entity_name: String,
    pub added_observations: Vec<String>,
}

/// A requested change.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphEdit {
    /// Adds entities whose names do not exist yet.
    CreateEntities(Vec<Entity>),
    /// Adds relations that do not exist yet.
    CreateRelations(Vec<Relation>),
    /// Adds new observations.
    AddObservations(Vec<Observations>),
    /// Removes all entities with these names and all their relations.
    DeleteEntities(Vec<String>),
    /// Removes observations.
    DeleteObservations(Vec<Observations>),
    DeleteRelations(Vec<Relation>),
}

/// The result of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphEditResult {
    Entities(Vec<Entity>),
    Relations(Vec<Relation>),
    Observations(Vec<AddedObservations>),
    /// The items no longer exist, or never did.
    Deleted,
}

/// Whether a change had an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphEffect {
    Changed,
    Unchanged,
}

/// An entity that should exist does not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Entity with name {0} not found")]
pub struct UnknownEntity(pub String);

impl Graph {
    /// Makes a change completely or not at all.
    pub fn apply_edit(
        &mut self,
        edit: GraphEdit,
    ) -> Result<(GraphEditResult, GraphEffect), UnknownEntity> {
        let size = self.count_parts();
        let edited = match edit {
            GraphEdit::CreateEntities(entities) => {
                GraphEditResult::Entities(self.create_entities(entities))
            }
            GraphEdit::CreateRelations(relations) => {
                GraphEditResult::Relations(self.create_relations(relations))
            }
            GraphEdit::AddObservations(asked) => {
                GraphEditResult::Observations(self.add_observations(asked)?)
            }
            GraphEdit::DeleteEntities(names) => self.delete_entities(&names),
            GraphEdit::DeleteObservations(asked) => self.delete_observations(&asked),
            GraphEdit::DeleteRelations(relations) => self.delete_relations(&relations),
        };
        // Every change only adds or only removes.
        let effect =
            if self.count_parts() == size { GraphEffect::Unchanged } else { GraphEffect::Changed };
        Ok((edited, effect))
    }

    /// Returns everything.
    pub fn select_all(&self) -> GraphSelection<'_> {
        GraphSelection {
            entities: self.entities.iter().collect(),
            relations: self.relations.iter().collect(),
        }
    }

    /// Returns the entities with these names.
    pub fn select_by_names<'a>(&'a self, names: &[impl AsRef<str>]) -> GraphSelection<'a> {
        let names: BTreeSet<&str> = names.iter().map(AsRef::as_ref).collect();
        self.select_entities(|entity| names.contains(entity.name.as_str()))
    }

    /// Returns the entities that have all of these texts in their name, type or observations,
    /// ignoring case. Without a text it returns everything.
    pub fn search_entities(&self, texts: &[impl AsRef<str>]) -> GraphSelection<'_> {
        if texts.is_empty() {
            return self.select_all();
        }
        let texts: Vec<String> = texts.iter().map(|it| it.as_ref().to_lowercase()).collect();
        let finders: Vec<_> = texts.iter().map(memmem::Finder::new).collect();
        self.select_entities(|entity| {
            let own = [&entity.name, &entity.entity_type];
            let own = own.into_iter().chain(&entity.observations);
            let own: Vec<String> = own.map(|text| text.to_lowercase()).collect();
            finders.iter().all(|it| own.iter().any(|text| it.find(text.as_bytes()).is_some()))
        })
    }

    /// Returns the matching entities. Relations of a name without an entity are not returned.
    fn select_entities(&self, mut is_match: impl FnMut(&Entity) -> bool) -> GraphSelection<'_> {
        let entities: Vec<&Entity> = self.entities.iter().filter(|it| is_match(it)).collect();
        let found: BTreeSet<&str> = entities.iter().map(|entity| entity.name.as_str()).collect();
        let touches = |it: &&Relation| {
            !found.is_empty()
                && (found.contains(it.from.as_str()) || found.contains(it.to.as_str()))
        };
        GraphSelection { relations: self.relations.iter().filter(touches).collect(), entities }
    }

    fn count_parts(&self) -> (usize, usize, usize) {
        let observations = self.entities.iter().map(|entity| entity.observations.len()).sum();
        (self.entities.len(), self.relations.len(), observations)
    }

    fn create_entities(&mut self, mut asked: Vec<Entity>) -> Vec<Entity> {
        // The request is small and the graph may be large: one pass over the latter.
        let names: BTreeSet<&str> = asked.iter().map(|entity| entity.name.as_str()).collect();
        let known = self.entities.iter().map(|entity| entity.name.as_str());
        let known: BTreeSet<&str> = known.filter(|name| names.contains(name)).collect();
        let is_new: Vec<bool> =
            asked.iter().map(|entity| !known.contains(entity.name.as_str())).collect();
        retain_marked(&mut asked, &is_new);
        self.entities.extend(asked.iter().cloned());
        asked
    }

    fn create_relations(&mut self, mut asked: Vec<Relation>) -> Vec<Relation> {
        let keys: BTreeSet<_> = asked.iter().map(Relation::key).collect();
        let known = self.relations.iter().map(Relation::key);
        let known: BTreeSet<_> = known.filter(|key| keys.contains(key)).collect();
        let is_new: Vec<bool> = asked.iter().map(|it| !known.contains(&it.key())).collect();
        retain_marked(&mut asked, &is_new);
        self.relations.extend(asked.iter().cloned());
        asked
    }

    fn add_observations(
        &mut self,
        asked: Vec<Observations>,
    ) -> Result<Vec<AddedObservations>, UnknownEntity> {
        let places = self.index_by_name(&asked);
        if let Some(Observations { entity_name, .. }) =
            asked.iter().find(|it| !places.contains_key(it.entity_name.as_str()))
        {
            return Err(UnknownEntity(entity_name.clone()));
        }
        let places: Vec<usize> =
            asked.iter().filter_map(|it| places.get(it.entity_name.as_str()).copied()).collect();
        let added = asked.into_iter().zip(places).map(
            |(Observations { entity_name, mut contents }, place)| {
                let known = &self.entities[place].observations;
                let wanted: BTreeSet<&str> = contents.iter().map(String::as_str).collect();
                let known = known.iter().map(String::as_str);
                let known: BTreeSet<&str> = known.filter(|text| wanted.contains(text)).collect();
                let is_new: Vec<bool> =
                    contents.iter().map(|text| !known.contains(text.as_str())).collect();
                retain_marked(&mut contents, &is_new);
                self.entities[place].observations.extend(contents.iter().cloned());
                AddedObservations { entity_name, added_observations: contents }
            },
        );
        Ok(added.collect())
    }

    fn delete_entities(&mut self, names: &[String]) -> GraphEditResult {
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.entities.retain(|entity| !names.contains(entity.name.as_str()));
        self.relations
            .retain(|it| !names.contains(it.from.as_str()) && !names.contains(it.to.as_str()));
        GraphEditResult::Deleted
    }

    fn delete_observations(&mut self, asked: &[Observations]) -> GraphEditResult {
        let places = self.index_by_name(asked);
        for Observations { entity_name, contents } in asked {
            if let Some(&place) = places.get(entity_name.as_str()) {
                let gone: BTreeSet<&str> = contents.iter().map(String::as_str).collect();
                self.entities[place].observations.retain(|text| !gone.contains(text.as_str()));
            }
        }
        GraphEditResult::Deleted
    }

    fn delete_relations(&mut self, asked: &[Relation]) -> GraphEditResult {
        let gone: BTreeSet<_> = asked.iter().map(Relation::key).collect();
        self.relations.retain(|relation| !gone.contains(&relation.key()));
        GraphEditResult::Deleted
    }

    /// Returns the index of the first entity with each name.
    fn index_by_name<'a>(&self, asked: &'a [Observations]) -> BTreeMap<&'a str, usize> {
        let names: BTreeSet<&str> = asked.iter().map(|it| it.entity_name.as_str()).collect();
        let mut places = BTreeMap::new();
        for (place, entity) in self.entities.iter().enumerate() {
            if let Some(&name) = names.get(entity.name.as_str()) {
                places.entry(name).or_insert(place);
            }
        }
        places
    }
}

impl Relation {
    /// Returns what identifies a relation.
    fn key(&self) -> (&str, &str, &str) {
        (&self.from, &self.to, &self.relation_type)
    }
}

/// Keeps the marked items.
fn retain_marked<T>(items: &mut Vec<T>, marks: &[bool]) {
    let mut marks = marks.iter();
    items.retain(|_| marks.next().is_some_and(|mark| *mark));
}

#[cfg(test)]
mod tests;
