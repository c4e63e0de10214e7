import { Store } from "../../objects/store.ts";

/** The proposals of this pipeline that the catalogue may have (work/saga/propose.ts). Not of one life of a pipeline. */
export class ProposalStore extends Store {
  add(id: string): void {
    this.sql.run`INSERT INTO proposals (id) VALUES (${id}) ON CONFLICT DO NOTHING`;
  }

  all(): string[] {
    return this.sql.all<{ id: string }>`SELECT id FROM proposals ORDER BY id`.map(({ id }) => id);
  }

  remove(ids: readonly string[]): void {
    this.sql.run`DELETE FROM proposals WHERE id IN (SELECT value FROM json_each(${JSON.stringify(ids)}))`;
  }
}
