// Package objectcache keeps the ConfigMaps and Secrets that this node's Pods refer to, each watched
// by name for as long as some Pod needs it.
//
// Watching single names is all the Node authorizer lets a node do. Changes are pushed: nothing
// polls.
//
// In: Pods to hold and drop; watches of the API server. Out: objects for volumes and environment
// variables; a call of Changed for each Pod whose object changed.
package objectcache
