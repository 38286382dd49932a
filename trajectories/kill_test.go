package trajectories

const childVariable = "HERMES_ENV_TRAJECTORIES_CHILD"

func runChild(string) int { return 0 }
