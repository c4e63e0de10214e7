import { BranchStore } from "../store.ts";

/** A name for a commit. */
export interface TagRow {
  readonly name: string;
  /** The commit's id. */
  readonly commit: string;
  /** When it was made or last moved; milliseconds since 1970. */
  readonly createdAt: number;
}

/** A tag that the catalogue is still to be told of. */
export interface TagNews {
  readonly name: string;
  /** Grows with each change of any tag of the branch, over all generations. */
  readonly version: number;
}

/**
 * Names of commits. Each generation has its own, so that a deletion of the branch ends them without a write to each. What
 * the catalogue does not know yet is a row of `tag_news`, written in the transaction of the change: one row a name,
 * however often it changed.
 */
export class TagStore extends BranchStore {
  find(gen: number, name: string): TagRow | undefined {
    return this.sql.first<TagRow>`
      SELECT name, "commit", createdAt FROM tags WHERE gen = ${gen} AND name = ${name}`;
  }

  /** Makes a tag, or moves it. */
  set(gen: number, { name, commit, createdAt }: TagRow): void {
    this.sql.run`
      INSERT OR REPLACE INTO tags (gen, name, "commit", createdAt)
      VALUES (${gen}, ${name}, ${commit}, ${createdAt})`;
    this.#recordNews(name);
  }

  remove(gen: number, name: string): void {
    this.sql.run`DELETE FROM tags WHERE gen = ${gen} AND name = ${name}`;
    this.#recordNews(name);
  }

  /** The generation is gone, and its tags with it: whatever the catalogue heard of them until now counts no more. */
  endGeneration(): void {
    this.sql.run`DELETE FROM tag_news`;
    this.sql
      .run`UPDATE tag_clock SET version = version + 1, ended = version + 1 WHERE one = 1 AND version > ended`;
  }

  /** The catalogue is to forget what it has of this version or an earlier one; 0 if no tag of a deleted generation was ever made. */
  get ended(): number {
    return this.sql.number`SELECT ended FROM tag_clock WHERE one = 1`;
  }

  /** The catalogue is to hear of all tags of a generation, whatever it heard before. */
  tellAll(gen: number): void {
    this.sql.run`
      INSERT INTO tag_news (name, version)
      SELECT tags.name, tag_clock.version FROM tags CROSS JOIN tag_clock WHERE tags.gen = ${gen}
      ON CONFLICT DO NOTHING`;
  }

  /** A generation begins with tags: the catalogue is to hear of them as of ones that were made now. */
  beginGeneration(gen: number): void {
    this.sql.run`UPDATE tag_clock SET version = version + 1 WHERE one = 1`;
    this.tellAll(gen);
  }

  /** That of the last change of any tag. */
  get version(): number {
    return this.sql.number`SELECT version FROM tag_clock WHERE one = 1`;
  }

  /** Some of what the catalogue does not know yet. */
  news(limit: number): TagNews[] {
    return this.sql.all<TagNews>`SELECT name, version FROM tag_news ORDER BY name LIMIT ${limit}`;
  }

  /** It knows them now. What changed since then stays. */
  acknowledged(news: readonly TagNews[]): void {
    for (const { name, version } of news) {
      this.sql.run`DELETE FROM tag_news WHERE name = ${name} AND version = ${version}`;
    }
  }

  #recordNews(name: string): void {
    this.sql.run`UPDATE tag_clock SET version = version + 1 WHERE one = 1`;
    this.sql.run`
      INSERT OR REPLACE INTO tag_news (name, version) SELECT ${name}, version FROM tag_clock WHERE one = 1`;
  }
}
