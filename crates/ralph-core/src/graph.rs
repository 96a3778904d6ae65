//! The knowledge graph that agents keep: things, what is known of them, and how they relate.
//!
//! Its rules are those of the widespread memory server for agents, so that either can go on with
//! what the other wrote: a name need not be unique, what is asked to be created twice in one
//! call is created twice, and a relation may name things that are not there. Not here: the file,
//! and the protocol.

mod index;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use index::{Index, Touched};

/// A thing, and what is known of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entity {
    /// What it is called.
    pub name: String,
    /// What kind of thing it is.
    pub entity_type: String,
    /// What is known of it.
    pub observations: Vec<String>,
    /// What else its line in the file says.
    #[serde(skip)]
    pub extra: Map<String, Value>,
}

/// How one thing relates to another.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relation {
    /// The name of the one.
    pub from: String,
    /// The name of the other.
    pub to: String,
    /// How.
    pub relation_type: String,
    /// What else its line in the file says.
    #[serde(skip)]
    pub extra: Map<String, Value>,
}

/// Everything that is known.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Graph {
    /// The things, oldest first.
    pub entities: Vec<Entity>,
    /// The relations, oldest first.
    pub relations: Vec<Relation>,
}

/// A part of the graph.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Selection<'a> {
    /// The things in it.
    pub entities: Vec<&'a Entity>,
    /// Every relation that begins or ends at one of them.
    pub relations: Vec<&'a Relation>,
}

/// Observations about one thing.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observations {
    /// Its name.
    pub entity_name: String,
    /// They.
    #[serde(alias = "observations")]
    pub contents: Vec<String>,
}

/// What came of adding observations to one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Added {
    /// Its name.
    pub entity_name: String,
    /// Those that were new.
    pub added_observations: Vec<String>,
}

/// A change that is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Add things whose names are not there yet.
    CreateEntities(Vec<Entity>),
    /// Add relations that are not there yet.
    CreateRelations(Vec<Relation>),
    /// Add what is not known yet.
    AddObservations(Vec<Observations>),
    /// Remove all things of these names, with all their relations.
    DeleteEntities(Vec<String>),
    /// Remove what is no longer true.
    DeleteObservations(Vec<Observations>),
    /// Remove these relations.
    DeleteRelations(Vec<Relation>),
}

/// What came of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Edited {
    /// The things that were new.
    Entities(Vec<Entity>),
    /// The relations that were new.
    Relations(Vec<Relation>),
    /// The observations that were new.
    Observations(Vec<Added>),
    /// What was asked for is not there, or no more.
    Deleted,
}

/// Whether a change made a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The graph is another one.
    Changed,
    /// It is as it was.
    Unchanged,
}

/// A thing that should be there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Entity with name {0} not found")]
pub struct UnknownEntity(pub String);

impl Graph {
    /// Makes a change, whole or not at all.
    pub fn apply(&mut self, edit: Edit) -> Result<(Edited, Effect), UnknownEntity> {
        let size = self.size();
        let edited = match edit {
            Edit::CreateEntities(entities) => Edited::Entities(self.create_entities(entities)),
            Edit::CreateRelations(relations) => Edited::Relations(self.create_relations(relations)),
            Edit::AddObservations(asked) => Edited::Observations(self.add_observations(asked)?),
            Edit::DeleteEntities(names) => self.delete_entities(&names),
            Edit::DeleteObservations(asked) => self.delete_observations(&asked),
            Edit::DeleteRelations(relations) => self.delete_relations(&relations),
        };
        // Every change only adds or only removes.
        let effect = if self.size() == size { Effect::Unchanged } else { Effect::Changed };
        Ok((edited, effect))
    }

    /// Returns everything.
    pub fn all(&self) -> Selection<'_> {
        Selection {
            entities: self.entities.iter().collect(),
            relations: self.relations.iter().collect(),
        }
    }

    /// Returns the things of these names.
    pub fn open<'a>(&'a self, names: &[impl AsRef<str>]) -> Selection<'a> {
        let names: BTreeSet<&str> = names.iter().map(AsRef::as_ref).collect();
        let is_meant = |entity: &&Entity| names.contains(entity.name.as_str());
        let entities: Vec<&Entity> = self.entities.iter().filter(is_meant).collect();
        // A name that nothing has is no reason to tell of its relations.
        let found: BTreeSet<&str> = entities.iter().map(|entity| entity.name.as_str()).collect();
        let touches = |it: &&Relation| {
            !found.is_empty()
                && (found.contains(it.from.as_str()) || found.contains(it.to.as_str()))
        };
        Selection { relations: self.relations.iter().filter(touches).collect(), entities }
    }

    fn size(&self) -> (usize, usize, usize) {
        let observations = self.entities.iter().map(|entity| entity.observations.len()).sum();
        (self.entities.len(), self.relations.len(), observations)
    }

    fn create_entities(&mut self, mut asked: Vec<Entity>) -> Vec<Entity> {
        // What is asked for is little and what is there may be much: one pass over the latter.
        let names: BTreeSet<&str> = asked.iter().map(|entity| entity.name.as_str()).collect();
        let known = self.entities.iter().map(|entity| entity.name.as_str());
        let known: BTreeSet<&str> = known.filter(|name| names.contains(name)).collect();
        let is_new: Vec<bool> =
            asked.iter().map(|entity| !known.contains(entity.name.as_str())).collect();
        keep(&mut asked, &is_new);
        self.entities.extend(asked.iter().cloned());
        asked
    }

    fn create_relations(&mut self, mut asked: Vec<Relation>) -> Vec<Relation> {
        let keys: BTreeSet<_> = asked.iter().map(Relation::key).collect();
        let known = self.relations.iter().map(Relation::key);
        let known: BTreeSet<_> = known.filter(|key| keys.contains(key)).collect();
        let is_new: Vec<bool> = asked.iter().map(|it| !known.contains(&it.key())).collect();
        keep(&mut asked, &is_new);
        self.relations.extend(asked.iter().cloned());
        asked
    }

    fn add_observations(&mut self, asked: Vec<Observations>) -> Result<Vec<Added>, UnknownEntity> {
        let places = self.places(&asked);
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
                keep(&mut contents, &is_new);
                self.entities[place].observations.extend(contents.iter().cloned());
                Added { entity_name, added_observations: contents }
            },
        );
        Ok(added.collect())
    }

    fn delete_entities(&mut self, names: &[String]) -> Edited {
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.entities.retain(|entity| !names.contains(entity.name.as_str()));
        self.relations
            .retain(|it| !names.contains(it.from.as_str()) && !names.contains(it.to.as_str()));
        Edited::Deleted
    }

    fn delete_observations(&mut self, asked: &[Observations]) -> Edited {
        let places = self.places(asked);
        for Observations { entity_name, contents } in asked {
            if let Some(&place) = places.get(entity_name.as_str()) {
                let gone: BTreeSet<&str> = contents.iter().map(String::as_str).collect();
                self.entities[place].observations.retain(|text| !gone.contains(text.as_str()));
            }
        }
        Edited::Deleted
    }

    fn delete_relations(&mut self, asked: &[Relation]) -> Edited {
        let gone: BTreeSet<_> = asked.iter().map(Relation::key).collect();
        self.relations.retain(|relation| !gone.contains(&relation.key()));
        Edited::Deleted
    }

    /// Returns where the first thing of each name is.
    fn places<'a>(&self, asked: &'a [Observations]) -> BTreeMap<&'a str, usize> {
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
    /// Returns what makes it the one it is.
    fn key(&self) -> (&str, &str, &str) {
        (&self.from, &self.to, &self.relation_type)
    }
}

/// Keeps the items that are marked.
fn keep<T>(items: &mut Vec<T>, marks: &[bool]) {
    let mut marks = marks.iter();
    items.retain(|_| marks.next().is_some_and(|mark| *mark));
}

#[cfg(test)]
mod tests;
