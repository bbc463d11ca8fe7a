module policy

go 1.27
