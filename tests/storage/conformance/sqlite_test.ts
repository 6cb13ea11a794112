import { conformance } from "./suite.ts";
import { sqliteWithReaders } from "./sqlite_subject.ts";

conformance(sqliteWithReaders);
