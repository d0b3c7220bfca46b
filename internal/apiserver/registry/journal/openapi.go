package journal

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Definitions are the OpenAPI models of the types.
func Definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	text := func(doc string) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Description: doc, Type: []string{"string"}}}
	}
	entry := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}}}
	entry.Extensions = spec.Extensions{"x-kubernetes-preserve-unknown-fields": true}
	meta := metav1.ObjectMeta{}.OpenAPIModelName()
	return map[string]common.OpenAPIDefinition{
		PodJournal{}.OpenAPIModelName(): {
			Schema: spec.Schema{SchemaProps: spec.SchemaProps{
				Description: "PodJournal is what is known about one Pod: facts with their time and speaker, oldest " +
					"first.",
				Type: []string{"object"},
				Properties: map[string]spec.Schema{
					"kind":       text("Kind is PodJournal."),
					"apiVersion": text("APIVersion is journal.gantry.dev/v1alpha1."),
					"metadata":   {SchemaProps: spec.SchemaProps{Default: map[string]any{}, Ref: ref(meta)}},
					"entries": {SchemaProps: spec.SchemaProps{
						Description: "Entries are facts with their time and speaker, oldest first.",
						Type:        []string{"array"},
						Items:       &spec.SchemaOrArray{Schema: &entry},
					}},
				},
				Required: []string{"entries"},
			}},
			Dependencies: []string{meta},
		},
	}
}
