package finding

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// selectIn is selectInstead for a label selector: its labels, or one of its expressions.
func (c *Cluster) selectIn(self Object, field string, s *metav1.LabelSelector, d labelDifference) Remedy {
	if _, plain := s.MatchLabels[d.wantKey]; plain {
		return c.selectInstead(self, field+".matchLabels", d)
	}
	r := c.selectInstead(self, field, d)
	for i, e := range s.MatchExpressions {
		if e.Key == d.wantKey && len(e.Values) == 1 {
			r.Run = c.setCommand(self, fmt.Sprintf("%s.matchExpressions[%d]", field, i), fmt.Sprintf(
				`{"key":%s,"operator":%s,"values":[%s]}`, jsonText(d.key), jsonText(string(e.Operator)),
				jsonText(d.has)))
		}
	}
	return r
}

// selectInstead sets a label of a selector whose labels stand in a map at field; a command where
// only the value differs.
func (c *Cluster) selectInstead(self Object, field string, d labelDifference) Remedy {
	r := Remedy{Say: fmt.Sprintf("select %s=%s instead of %s=%s in %s", d.key, d.has, d.wantKey, d.wantValue, field)}
	if strings.HasPrefix(field, "spec.nodeSelector") { // of a Pod
		r.NodeLabels = []string{d.key + "=" + d.has, d.wantKey + "=" + d.wantValue}
	}
	if d.key == d.wantKey && (strings.HasSuffix(field, "nodeSelector") || strings.HasSuffix(field, "matchLabels")) {
		escaped := strings.NewReplacer("~", "~0", "/", "~1").Replace(d.key)
		r.Run = c.replaceCommand(self, field+"\x00"+escaped, d.has)
	}
	return r
}
