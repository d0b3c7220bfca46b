package ask

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gantry-project/gantry/internal/kubelet/probe"
)

func (a *Asker) sync(*v1.Pod, string, []Running)         {}
func (a *Asker) verdict(probe.Key) (probe.Verdict, bool) { return probe.Pending, false }
func (a *Asker) forget(types.UID)                        {}
