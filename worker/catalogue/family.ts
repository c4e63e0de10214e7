import { familyOf, OTHER_FAMILY } from "../../protocol/family.ts";

/** Databases that have tables of our family. */
const ours = new WeakSet<D1Database>();

/**
 * The database, which is asked of what family its tables are before the first statement goes there. Once they are ours, nobody
 * asks again. Statements to tables of another family fail, and none reaches it. One without any tables fails each by itself.
 */
export function ofFamily(db: D1Database): D1Database {
  const inner = new WeakMap<D1PreparedStatement, D1PreparedStatement>();
  const checked = (statement: D1PreparedStatement): D1PreparedStatement => {
    const outer = new Proxy(statement, {
      get(_, name) {
        const method = Reflect.get(statement, name);
        if (typeof method !== "function") return method;
        if (name === "bind") return (...values: unknown[]) => checked(statement.bind(...values));
        return (...values: unknown[]) => check(db).then(() => method.apply(statement, values));
      },
    });
    inner.set(outer, statement);
    return outer;
  };
  return new Proxy(db, {
    get(_, name) {
      if (name === "prepare") return (query: string) => checked(db.prepare(query));
      if (name !== "batch") return Reflect.get(db, name);
      return (statements: D1PreparedStatement[]) =>
        check(db).then(() => db.batch(statements.map((statement) => inner.get(statement) ?? statement)));
    },
  });
}

async function check(db: D1Database): Promise<void> {
  if (ours.has(db)) return;
  const tables = await db
    .prepare("SELECT name FROM sqlite_master WHERE type = 'table'")
    .all<{ name: string }>();
  const names = tables.results.map(({ name }) => name);
  const row = names.includes("family")
    ? await db.prepare("SELECT word FROM family").first<{ word: string }>()
    : undefined;
  const family = familyOf(names, () => row?.word);
  if (family === "other") throw new Error(OTHER_FAMILY);
  if (family === "ours") ours.add(db);
}
