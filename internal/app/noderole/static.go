package noderole

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/internal/apiserver/registry/pods"
	"github.com/gantry-project/gantry/internal/kubelet/podsource/static"
)

// podRules are the API server's rules for Pods, which static Pods are held to without one.
func podRules() static.Rules {
	return static.Rules{
		Default: func(p *v1.Pod) {
			pods.Default(p)
			pods.PrepareCreate(p, metav1.Now())
		},
		Validate: func(p *v1.Pod) field.ErrorList { return pods.Validate(p) },
	}
}
