// Package openapi holds the OpenAPI definitions of the served k8s.io/api types, as compressed data
// that the program embeds and decodes at first use.
//
// Server-side apply, field validation, admission policies and `kubectl explain` read them. In:
// definitions.json.gz, made by hack/openapi/generate.sh from k8s.io/api. Out:
// GetOpenAPIDefinitions. To add a group: a word in the script, then run it.
package openapi
