package coscheduling

import _ "embed"

// CRD is the CustomResourceDefinition of PodGroup, in YAML.
//
//go:embed crd.yaml
var CRD []byte
