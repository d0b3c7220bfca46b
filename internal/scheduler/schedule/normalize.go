package schedule

import "k8s.io/kube-scheduler/framework"

// Normalize scales raw scores to 0..framework.MaxScore by the largest of them; reverse turns them
// round, so that the largest raw score becomes the worst. With nothing but zeros all stay 0, or all
// become the best when reversed (upstream's default normalisation).
func Normalize(scores framework.NodeScoreList, reverse bool) {
	var top int64
	for i := range scores {
		top = max(top, scores[i].Score)
	}
	for i := range scores {
		if top > 0 {
			scores[i].Score = framework.MaxScore * scores[i].Score / top
		}
		if reverse {
			scores[i].Score = framework.MaxScore - scores[i].Score
		}
	}
}
