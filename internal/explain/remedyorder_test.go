package explain

import (
	"strings"
	"testing"
)

// What mends comes before what only a person can find out, and that before what only looks;
// alternatives keep their place, and so does what leads to the root.
func TestWhatMendsComesFirst(t *testing.T) {
	look := commandFix("look", "kubectl -n shop logs web --previous")
	for want, list := range map[string][]Fix{
		"mend look":         {look, commandFix("mend", "kubectl -n shop patch pod web -p '{}'")},
		"mend text look":    {{Description: "text"}, look, commandFix("mend", "kubectl get x | kubectl replace -f -")},
		"root or mend look": {look, seeWhy("root", "Pod", "shop", "x"), commandFix("or mend", "kubectl delete x")},
		"text look":         {{Description: "text"}, look},
		"look text":         {look, {Description: "text"}},
		"text or mend":      {{Description: "text"}, commandFix("or mend", "kubectl delete pod x")},
	} {
		var got []string
		for _, f := range byEffect(list) {
			got = append(got, f.Description)
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("got %s, want %s", s, want)
		}
	}
}
