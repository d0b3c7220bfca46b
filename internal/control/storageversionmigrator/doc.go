// Package storageversionmigrator rewrites stored objects whose form the server no longer writes:
// JSON instead of protobuf, an older version of the kind, another or no encryption key.
//
// Values are read from etcd directly. To learn whether a form is current, an empty patch makes the
// server rewrite one object, which it skips exactly if the stored bytes are what it would write.
// Writes go through the API with uid and resourceVersion as preconditions, so that concurrent
// writes are not lost. Migrated objects are not touched again, so an interrupted run is resumed by
// running again. Controller does this for single resources as StorageVersionMigrations (KEP-4192)
// demand. In: etcd, discovery, a client. Out: a Report per resource; conditions of migrations.
package storageversionmigrator
