/** Adds headers to an answer. */
export function setHeaders({ headers }: Response, more: Readonly<Record<string, string>>): void {
  for (const name in more) headers.set(name, more[name] as string);
}
