// Package storageversionmigrator has every stored object written anew that is stored in a form the
// server no longer writes: JSON instead of protobuf, an older version of its kind, another
// encryption key or none.
//
// Values are read from etcd as they lie there; whether a form is the present one is found out by
// asking the server to write one object of it anew without a change, which it leaves alone exactly
// when the stored bytes are what it would write. Writes go through the API, with uid and
// resourceVersion as conditions, so that nothing is lost when others write meanwhile. What was
// upgraded is not touched again: a run that was broken off is resumed by running once more.
// Controller does the same for one resource at a time, as StorageVersionMigrations ask for it
// (KEP-4192). In: etcd, discovery, a client. Out: a Report per resource as it goes on; conditions
// of migrations.
package storageversionmigrator
