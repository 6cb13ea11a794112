/** Stands in for the storage worker's module and loads as slowly as on a first start. */
await new Promise((resolve) => setTimeout(resolve, 500));

// The query makes it another module than the one that this file replaces.
const { runStorageWorker } = await import(
  new URL("../../../../src/storage/sqlite/worker.ts?loaded", import.meta.url).href
);

export { runStorageWorker };
