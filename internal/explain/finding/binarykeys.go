package finding

import (
	"fmt"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/shellquote"
)

// binaryKeys finds variables from a key that a ConfigMap has in binaryData: variables are made of
// data alone.
func binaryKeys(c *Cluster, o metav1.Object, self Object) []Finding {
	if metav1.GetControllerOf(o) != nil {
		return nil // what makes it says so
	}
	return eachContainer(o, self, func(x place) []Finding {
		var out []Finding
		for i, e := range x.c.Env {
			if e.ValueFrom == nil || e.ValueFrom.ConfigMapKeyRef == nil {
				continue
			}
			r := e.ValueFrom.ConfigMapKeyRef
			m, ok := get[*corev1.ConfigMap](c, "ConfigMap", self.Namespace, r.Name)
			if !ok {
				continue
			}
			value, binary := m.BinaryData[r.Key]
			if _, plain := m.Data[r.Key]; plain || !binary || r.Optional != nil && *r.Optional {
				continue
			}
			f := Finding{Code: "KeyIsBinary", Stage: StageRun, Object: self,
				Field: fmt.Sprintf("%s.env[%d].valueFrom.configMapKeyRef.key", x.at, i), Value: r.Key,
				Related: []Object{objectOf("ConfigMap", m)},
				Numbers: map[string]string{"bytes": fmt.Sprint(len(value))},
				Message: fmt.Sprintf("Variable %s of container %s is key %s of ConfigMap %s, which has it in "+
					"binaryData: variables are made of data alone, so for them there is no such key.", e.Name, x.c.Name,
					r.Key, m.Name)}
			f.Remedies = []Remedy{{Say: "mount the ConfigMap as a volume, where binaryData are files too"}}
			if utf8.Valid(value) {
				f.Remedies = []Remedy{{Say: "move the key to data: its content is text", Run: []string{kubectl(
					f.Related[0], "patch", "--type=merge -p "+shellquote.Quoted(fmt.Sprintf(
						`{"data":{%[1]s:%[2]s},"binaryData":{%[1]s:null}}`, jsonText(r.Key),
						jsonText(string(value)))))}}}
			}
			out = append(out, f)
		}
		return out
	})
}
